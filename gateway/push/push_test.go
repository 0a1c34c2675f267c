package push

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/channel"
)

const pc = auth.Client("w:w-qqkoceve6obhnoikv6ifszqs57")

// office has a Node, which lets in whom it is told to.
type office struct {
	*Node
	url  string
	life time.Duration // of tokens
	// shut is why pc may not stay, after it was asked for so often.
	shut  atomic.Pointer[api.Disconnect]
	after atomic.Int64
}

func open(t *testing.T, life time.Duration) *office {
	t.Helper()
	o := &office{life: life}
	var err error
	if o.Node, err = New(Options{
		Who: func(string, []byte) (auth.Client, time.Time, error) { return pc, time.Now().Add(o.life), nil },
		Stays: func(auth.Client) error {
			if why := o.shut.Load(); why != nil && o.after.Add(-1) < 0 {
				return why
			}
			return nil
		},
		Listen: func(auth.Client, string) *channel.Error { return nil },
		Call:   func(cluster.NodeID, string, string, []byte) (any, *api.Problem) { return struct{}{}, nil },
		Gone:   func(string) {},
		Ended:  func(api.DisconnectCode) {},
		Origin: func(*http.Request) bool { return true },
		Now:    func() time.Duration { return 0 },
		Logger: zerolog.Nop(),
	}); err != nil {
		t.Fatal(err)
	}
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(o)
	t.Cleanup(func() { o.Stop(); srv.Close() })
	o.url = "ws" + strings.TrimPrefix(srv.URL, "http")
	return o
}

// dial returns what becomes of a connection: 0 is that it is open.
func (o *office) dial(t *testing.T) <-chan uint32 {
	t.Helper()
	said := make(chan uint32, 10)
	c := centrifuge.NewJsonClient(o.url, centrifuge.Config{
		Token: "first", GetToken: func(centrifuge.ConnectionTokenEvent) (string, error) { return "next", nil },
	})
	t.Cleanup(c.Close)
	c.OnConnected(func(centrifuge.ConnectedEvent) { said <- 0 })
	c.OnDisconnected(func(e centrifuge.DisconnectedEvent) { said <- e.Code })
	if err := c.Connect(); err != nil {
		t.Fatal(err)
	}
	return said
}

func hear(t *testing.T, said <-chan uint32, want api.DisconnectCode) {
	t.Helper()
	select {
	case got := <-said:
		if got != uint32(want) {
			t.Fatalf("%d, want %d", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing, want %d", want)
	}
}

// TestRefresh: who may not stay is not kept by a newer token.
func TestRefresh(t *testing.T) {
	o := open(t, 3*time.Second)
	o.shut.Store(&api.Disconnect{Code: api.DisconnectRevoked, Reason: "revoked"})
	o.after.Store(2) // asked when it connects, and when it has
	said := o.dial(t)
	hear(t, said, 0)
	hear(t, said, api.DisconnectRevoked)
}

// TestShutMeanwhile: who is shut out while it connects is found although it was in no list
// then.
func TestShutMeanwhile(t *testing.T) {
	o := open(t, time.Hour)
	o.shut.Store(&api.Disconnect{Code: api.DisconnectRevoked, Reason: strings.Repeat("revoked ", 40)})
	o.after.Store(1)
	said := o.dial(t)
	hear(t, said, 0)
	hear(t, said, api.DisconnectRevoked)
}

// TestEnd ends all connections of a worker.
func TestEnd(t *testing.T) {
	o := open(t, time.Hour)
	one, two := o.dial(t), o.dial(t)
	hear(t, one, 0)
	hear(t, two, 0)
	if w := o.Clients(); len(w) != 1 || w[0] != pc {
		t.Fatalf("connected: %v", w)
	}
	o.End("w:w-other", "", api.Disconnect{Code: api.DisconnectReplaced, Reason: "another's"})
	o.End(pc, "", api.Disconnect{Code: api.DisconnectRevoked, Reason: "revoked"})
	hear(t, one, api.DisconnectRevoked)
	hear(t, two, api.DisconnectRevoked)
}
