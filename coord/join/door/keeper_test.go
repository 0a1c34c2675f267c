package door

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
)

var masterOnion = member.Onion{2}.String()

func knock(method, path string, change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, path, http.NoBody)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", doorProtocol)
	if change != nil {
		change(r)
	}
	return r
}

// TestDoorRefusals: whatever is wrong, the answer is the same, byte for byte,
// and takes the same time.
func TestDoorRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := []byte("secret of the cluster")
		mine, away := token.NewID(secret, "n1"), token.NewID(secret, "n2")
		keeper, err := New(Options{
			Secret: secret, Sponsors: func() []cluster.NodeID { return []cluster.NodeID{"n1", "n2"} },
			Dial: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
				if to == "n2" {
					<-ctx.Done() // out of reach
					return nil, ctx.Err()
				}
				a, b := net.Pipe()
				_ = b.Close() // does not know the invite
				return a, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var first *httptest.ResponseRecorder
		for _, r := range []*http.Request{
			knock("POST", PathPrefix+mine, nil),
			knock("POST", PathPrefix+away, nil),
			knock("POST", PathPrefix+token.NewID(secret, "n3"), nil),
			knock("POST", PathPrefix+token.NewID([]byte("another"), "n1"), nil),
			knock("POST", PathPrefix+"aaaaaaaaaaaaaaaa", nil),
			knock("POST", PathPrefix+strings.ToUpper(mine), nil),
			knock("POST", PathPrefix+mine+"/", nil),
			knock("POST", PathPrefix, nil),
			knock("GET", PathPrefix+mine, nil),
			knock("POST", PathPrefix+mine+"?x=1", nil),
			knock("POST", PathPrefix+mine, func(r *http.Request) { r.Header.Del("Upgrade") }),
			knock("POST", PathPrefix+mine, func(r *http.Request) { r.ContentLength = 5 }),
			knock("POST", PathPrefix+mine, func(r *http.Request) { r.ContentLength = -1 }),
		} {
			start := time.Now()
			w := httptest.NewRecorder()
			keeper.ServeHTTP(w, r)
			if took := time.Since(start); took != doorTime {
				t.Errorf("%s %s: answered after %s", r.Method, r.URL, took)
			}
			if first == nil {
				first = w
			}
			if w.Code != http.StatusNotFound || w.Body.String() != first.Body.String() || len(w.Header()) != len(first.Header()) {
				t.Errorf("%s %s: %d %v %q", r.Method, r.URL, w.Code, w.Header(), w.Body)
			}
		}
	})
}

// TestDoorFlood: guesses, however many, wait in a room of their own and reach
// no other host; who has an invite gets through meanwhile.
func TestDoorFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := []byte("secret of the cluster")
		dials := 0
		var mu sync.Mutex
		keeper, err := New(Options{
			Secret: secret, Sponsors: func() []cluster.NodeID { return []cluster.NodeID{"n1"} },
			Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dials++
				return nil, errors.New("enough for this test")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var flood sync.WaitGroup
		for range 1000 {
			flood.Go(func() {
				keeper.ServeHTTP(httptest.NewRecorder(), knock("POST", PathPrefix+token.NewID([]byte("guess"), "n1"), nil))
			})
		}
		synctest.Wait()
		if n := counted(t, keeper.results, doorFlood); n != 1000-maxWaiting {
			t.Errorf("%v of 1000 guesses answered at once", n)
		}
		if dials != 0 {
			t.Errorf("%d guesses reached another host", dials)
		}
		good := token.NewID(secret, "n1")
		keeper.ServeHTTP(httptest.NewRecorder(), knock("POST", PathPrefix+good, nil))
		if dials != 1 {
			t.Error("a good invite did not get through")
		}
		flood.Wait()

		// Nor does one invite take all places.
		var leaves []func()
		for range maxPassedEach {
			leave, ok := keeper.enter(good)
			if !ok {
				t.Fatal("too few places")
			}
			leaves = append(leaves, leave)
		}
		if _, ok := keeper.enter(good); ok {
			t.Error("one invite takes more than its places")
		}
		if leave, ok := keeper.enter("another"); !ok {
			t.Error("another invite finds no place")
		} else {
			leave()
		}
		for _, leave := range leaves {
			leave()
		}
		if len(keeper.passed) != 0 || keeper.all != 0 {
			t.Errorf("places left behind: %v, %d", keeper.passed, keeper.all)
		}
	})
}

// TestThroughDoorHostile: what stands behind the onion address is not believed.
func TestThroughDoorHostile(t *testing.T) {
	for name, answer := range map[string]string{
		"404":            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
		"200":            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"not HTTP":       "SSH-2.0-x\r\n",
		"cut":            "HTTP/1.1 101 Swi",
		"endless header": "HTTP/1.1 101 Switching Protocols\r\n" + strings.Repeat("x: y\r\n", 100_000),
		"endless line":   "HTTP/1.1 101 " + strings.Repeat("x", 1<<20),
		"nothing":        "",
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			go func() {
				defer far.Close()
				buf := make([]byte, 4096)
				_, _ = far.Read(buf)
				_, _ = io.WriteString(far, answer)
			}()
			if _, err := Through(t.Context(), near, masterOnion+":80", "aaaaaaaaaaaaaaaa"); !errors.Is(err, ErrDoor) {
				t.Errorf("%v", err)
			}
		})
	}
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		_, _ = far.Read(make([]byte, 4096))
		_, _ = io.WriteString(far, "HTTP/1.1 101 Switching Protocols\r\n\r\nearly")
		_, _ = io.WriteString(far, " and late")
	}()
	c, err := Through(t.Context(), near, masterOnion+":80", "aaaaaaaaaaaaaaaa")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "early and late" {
		t.Errorf("%q, %v", got, err)
	}
}
