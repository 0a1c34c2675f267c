package join

import (
	"fmt"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
)

// BenchmarkSponsor measures what a sponsor of 1000 members spends on one
// that asks for a renewal before it is due, and on one that is due.
func BenchmarkSponsor(b *testing.B) {
	dir := b.TempDir()
	o := initOptions("n1")
	o.Wall = time.Now().Add(-time.Hour)
	if err := Init(dir, o); err != nil {
		b.Fatal(err)
	}
	id, rs, err := Load(dir)
	if err != nil {
		b.Fatal(err)
	}
	t := member.NewTable(id.Verifier())
	if _, err := t.AddAll(rs, time.Now()); err != nil {
		b.Fatal(err)
	}
	own, _ := t.Cert("n1")
	for i := range 1000 {
		f, err := newKeys(cluster.NodeID(fmt.Sprintf("m%d", i)))
		if err != nil {
			b.Fatal(err)
		}
		f.RootPub = id.RootPub
		m, err := f.identity()
		if err != nil {
			b.Fatal(err)
		}
		rec, err := certify(id.IDKey(), member.Cert{
			Cluster: id.Cluster, Node: m.Node, IDPub: m.IDPub, Slice: own.Slice, Serial: 1,
			Issued: time.Now().Unix(), Expires: time.Now().Add(time.Hour).Unix(),
		}, t.Taken)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := t.AddCert(rec, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	invites, err := OpenInvites(dir)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	s, err := NewSponsor(SponsorOptions{
		Identity: id, Invites: invites, Records: t.Records, OnAdmit: (&site{}).onAdmit, Wall: func() time.Time { return now },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("early", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Renew(b.Context(), "m7"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("due", func(b *testing.B) {
		for b.Loop() {
			now = now.Add(31 * 24 * time.Hour)
			if _, err := s.Renew(b.Context(), "m7"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
