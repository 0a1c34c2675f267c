package descriptor

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "tor", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestGolden reads what tor 0.4.9.11 said in a private network, for two hosts:
// their descriptors, the consensus, and where it uploaded to.
func TestGolden(t *testing.T) {
	now, err := time.Parse(time.RFC3339, strings.TrimSpace(string(golden(t, "now"))))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseConsensus(golden(t, "consensus"))
	if err != nil {
		t.Fatal(err)
	}
	mds, err := ParseMicrodescs(golden(t, "microdescs"))
	if err != nil {
		t.Fatal(err)
	}
	sched, err := c.Schedule(true)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Dirs) != 12 || len(mds) != 12 || c.SpreadStore != 2 || c.SpreadFetch != 2 || c.Replicas != 2 || sched.First.Period.Length != 4 {
		t.Fatalf("%d directories, %d microdescriptors, spread %d and %d, %s", len(c.Dirs), len(mds), c.SpreadStore, c.SpreadFetch, sched.First.Period)
	}
	var candidates []Candidate
	var opened []*Descriptor
	for i := range 2 {
		a, err := ParseAddress(strings.TrimSpace(string(golden(t, fmt.Sprintf("host%d.address", i)))))
		if err != nil {
			t.Fatal(err)
		}
		text := golden(t, fmt.Sprintf("host%d.desc", i))
		for _, form := range [][]byte{text, bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))} {
			s, err := Parse(form, now)
			if err != nil {
				t.Fatal(err)
			}
			p, err := s.Period(a, sched.Periods())
			if err != nil {
				t.Fatal(err)
			}
			d, err := s.Open(a, p, nil, now)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Points) != 3 || len(d.Dropped) != 0 || d.Revision == 0 || strings.Join(d.Header, "") != "flow-control 1-2 31\n" {
				t.Errorf("host %d: %+v", i, d)
			}
			if len(form) == len(text) {
				candidates = append(candidates, Candidate{Node: cluster.NodeID(fmt.Sprint("host-", i)), Weight: 1, Points: d.Points})
				opened = append(opened, d)
			}
		}
		for _, slot := range []Slot{sched.First, sched.Second} {
			compareUploads(t, c, mds, slot, a)
		}
	}
	p := testParams(0)
	p.Points, p.Header, p.Now = Merge(candidates, 1, p.Entropy)[0].Points, CommonHeader(opened), now
	b := mustBuild(t, p)
	if err := Check(b.Text, expect(p, b)); err != nil {
		t.Error(err)
	}
}

// compareUploads compares the directories of a descriptor, and their indices,
// with those in the upload events of the host's tor.
func compareUploads(t *testing.T, c *Consensus, mds Microdescs, s Slot, a Address) {
	t.Helper()
	r, err := c.Ring(mds, s)
	if err != nil {
		t.Fatal(err)
	}
	b := a.Blind(s.Period)
	var have []Fingerprint
	for line := range strings.Lines(string(golden(t, "uploads"))) {
		f := strings.Fields(line)
		if f[3] != a.ID() || f[6] != base64.RawStdEncoding.EncodeToString(b[:]) {
			continue
		}
		relay, err := ParseFingerprint(f[5])
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(r.nodes, func(n ringNode) bool { return n.relay == relay })
		if want := strings.TrimPrefix(f[7], "HSDIR_INDEX="); i < 0 || !strings.EqualFold(hex.EncodeToString(r.nodes[i].index[:]), want) {
			t.Errorf("index of %s is not %s", relay, want)
		}
		if !slices.Contains(have, relay) {
			have = append(have, relay)
		}
	}
	want := r.Store(b)
	order := func(a, b Fingerprint) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(have, order)
	slices.SortFunc(want, order)
	if len(want) != 4 || !slices.Equal(have, want) {
		t.Errorf("%s: tor uploads to %v, this to %v", s.Period, have, want)
	}
}
