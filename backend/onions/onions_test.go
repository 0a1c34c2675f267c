package onions

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/onion"
	"github.com/skein-project/skein/publisher/descriptor"
)

// republisher is a host that publishes, or not, and counts how often it was asked to.
type republisher struct {
	Host
	st    onion.Status
	asked []descriptor.Address
}

func (p *republisher) Status() onion.Status { return p.st }

func (p *republisher) Publish(a descriptor.Address) { p.asked = append(p.asked, a) }

// recorded are the events that were written.
type recorded []string

func (r *recorded) Record(_ context.Context, kind event.Kind, body any) {
	*r = append(*r, fmt.Sprintf("%s %+v", kind, body))
}

// fresh puts a new value where a pointer is.
func fresh[T any](at **T) *T {
	*at = new(T)
	return *at
}

// TestPublish: whichever host is asked, the publisher makes new descriptors, says under
// which term, and writes down who asked. A host that does not publish, or stands back,
// refuses and does nothing.
func TestPublish(t *testing.T) {
	a := descriptor.NewSecretKey([32]byte{1}).Address()
	routers := map[cluster.NodeID]*forward.Router{}
	logs := map[cluster.NodeID]*recorded{}
	host := func(self cluster.NodeID, st onion.AddressStatus) (*Control, *republisher) {
		st.Onion = state.Onion{Key: a}
		h := &republisher{st: onion.Status{Addresses: []onion.AddressStatus{st}}}
		v := &coord.View{Self: self, Members: []coord.MemberView{
			{Member: cluster.Member{Node: "n1"}, Health: cluster.Alive, Heard: true, Level: event.Level},
			{Member: cluster.Member{Node: "n2"}, Health: cluster.Alive, Heard: true, Level: event.Level},
		}}
		router, err := forward.New(forward.Options{
			Self: self, Lease: func() forward.Lease { return forward.Lease{} },
			Dial: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go routers[to].Serve(ctx, self, theirs)
				return ours, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		logs[self] = &recorded{}
		b := New(Options{Self: self, Host: h, View: func() *coord.View { return v }, Record: logs[self], Remote: router})
		b.Handle(router)
		routers[self] = router
		return b, h
	}
	does42 := onion.AddressStatus{PublishedBy: "n2"}
	at42 := fresh(&does42.Publisher)
	at42.Publishing, at42.Term = true, 42
	n1, asked := host("n1", onion.AddressStatus{PublishedBy: "n2"})
	n2, does := host("n2", does42)

	for i, b := range []*Control{n1, n2} {
		out, err := b.PublishOnion(t.Context(), "uid:0", a.String())
		if err != nil || out.Node != "n2" || out.Term != 42 || out.Address != a.String() {
			t.Fatalf("asked at n%d: %+v, %v", i+1, out, err)
		}
	}
	want := []string{"publish_asked {Address:" + a.String() + " Term:42 Actor:uid:0@n1}", "publish_asked {Address:" + a.String() + " Term:42 Actor:uid:0@n2}"}
	if !slices.Equal(*logs["n2"], want) || len(*logs["n1"]) != 0 || len(does.asked) != 2 || len(asked.asked) != 0 {
		t.Errorf("in the log of n2 %q, want %q; of n1 %q; published %d and %d times", *logs["n2"], want, *logs["n1"], len(does.asked), len(asked.asked))
	}

	refused := func(what, address string, b *Control, code api.Code, text string) {
		t.Helper()
		if _, err := b.PublishOnion(t.Context(), "uid:0", address); !api.IsCode(err, code) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("no address", "x", n1, api.CodeInvalidRequest, "")
	refused("another address", descriptor.NewSecretKey([32]byte{2}).Address().String(), n1, api.CodeNotFound, "does not serve")
	at42.Publishing = false
	refused("it publishes no more", a.String(), n1, api.CodeConflict, "n2 does not publish")
	does.st.Addresses[0].PublishedBy = "n1"
	if _, err := n2.publishFor(t.Context(), forward.Asker{From: "n1", Self: "n2", Actor: "uid:0@n1"}, forward.OnionNamed{Address: a.String()}); !api.IsCode(err, api.CodeConflict) {
		t.Errorf("n2 publishes for n1, which does: %v", err)
	}
	does.st.Addresses[0].PublishedBy = "n2"
	at42.Publishing, at42.Fenced = true, true
	refused("it stands back", a.String(), n1, api.CodeConflict, "later term than 42")
	at42.Fenced, at42.Solo = false, true
	refused("its tor publishes", a.String(), n2, api.CodeConflict, "by itself")
	asked.st.Addresses[0].PublishedBy = ""
	refused("nobody publishes", a.String(), n1, api.CodeConflict, "nobody is known")
	if len(*logs["n2"]) != 2 || len(does.asked) != 2 {
		t.Errorf("a refusal did something: %q, %d", *logs["n2"], len(does.asked))
	}
}
