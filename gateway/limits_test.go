package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/internal/bucket"
)

// rpcOver asks for something over a connection until ctx ends, which the client does not
// always mind when its connection is ended in the middle.
func rpcOver(ctx context.Context, c *centrifuge.Client, method string, data []byte) ([]byte, error) {
	type answer struct {
		centrifuge.RPCResult
		err error
	}
	got := make(chan answer, 1)
	go func() {
		r, err := c.RPC(ctx, method, data)
		got <- answer{r, err}
	}()
	select {
	case a := <-got:
		return a.Data, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// over asks for something over a connection: the error's code, 0 if it is answered, and
// whether to try again helps.
func over(t *testing.T, c *centrifuge.Client, method string, in, out any) (code uint32, again bool, says string) {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got, err := rpcOver(ctx, c, method, text)
	if e, ok := errors.AsType[*centrifuge.Error](err); ok {
		return e.Code, e.Temporary, e.Message
	}
	if err == nil && out != nil {
		err = json.Unmarshal(got, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, false, ""
}

// TestRates says the limits a second time: a change of one is meant.
func TestRates(t *testing.T) {
	for i, want := range []bucket.Rate{
		guard.Address: {PerSecond: 20, Burst: 200}, guard.Register: {PerSecond: 5.0 / 3600, Burst: 5}, guard.Claims: {PerSecond: 10.0 / 60, Burst: 10},
		guard.Proof: {PerSecond: 20.0 / 60, Burst: 20}, guard.Token: {PerSecond: 6.0 / 60, Burst: 6}, guard.Guess: {PerSecond: 5.0 / 3600, Burst: 5},
		guard.Owner: {PerSecond: 10, Burst: 100}, guard.Attach: {PerSecond: 1, Burst: 20}, guard.Beat: {PerSecond: 1, Burst: 10}, guard.Complete: {PerSecond: 100, Burst: 200}, guard.Call: {PerSecond: 20, Burst: 40},
	} {
		if got := guard.Limit(i).Rate(); got != want {
			t.Errorf("limit %s is %+v, want %+v", guard.Limit(i), got, want)
		}
	}
	if maxBody != 64<<10 || maxRPC != 3<<20 || maxReading != 256<<20 || maxHeader != 16<<10 || channel.MaxMessage != 64<<10 || desk.MaxRefs != 256 || desk.MaxResults != 64 || guard.MaxClaims != 10_000 || guard.ClaimLife != 15*time.Minute {
		t.Error("a size or a time is another")
	}
}

// TestEveryLimit asks until each limit is reached: after as much as may come at once, in
// its own name, saying for how long to wait. A limit without a row here fails it.
func TestEveryLimit(t *testing.T) {
	// once asks once: false: it is limited, by what and for how long.
	type once func() (ok bool, says string, wait bool)
	byHTTP := func(f *floor, req func() *http.Request) once {
		return func() (bool, string, bool) {
			status, p := f.do(req(), nil)
			return status != http.StatusTooManyRequests, p.Detail, p.RetryAfterSeconds != nil && *p.RetryAfterSeconds > 0
		}
	}
	get := func(f *floor, method, path, token, body string) func() *http.Request {
		return func() *http.Request {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.addr+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			return req
		}
	}
	// byConn asks over a connection in a session, which is more than an address may by HTTP.
	byConn := func(f *floor, method string, in func(s api.WorkSession) any) once {
		id, token := f.hired(1)
		c, _ := f.listen(id, token)
		var st api.WorkState
		if code, _, says := over(t, c, api.RPCAttach, attaching(), &st); code != 0 {
			t.Fatal(says)
		}
		return func() (bool, string, bool) {
			code, again, says := over(t, c, method, in(api.WorkSession{Session: st.Session}), nil)
			return code != 1429, says, again
		}
	}
	rows := [...]struct {
		by     func(f *floor) once
		before int // how much of it was used up before
	}{
		guard.Address: {func(f *floor) once { return byHTTP(f, get(f, "GET", "/healthz", "", "")) }, 0},
		guard.Register: {func(f *floor) once {
			n := byte(9)
			return byHTTP(f, func() *http.Request {
				n++
				return newComputer(n).signed(f.world, "/v1/workers/register", newComputer(n).register(""), nil)
			})
		}, 0},
		guard.Claims: {func(f *floor) once { return byHTTP(f, get(f, "POST", "/v1/workers/claim", "skt_x", "{}")) }, 0},
		guard.Proof: {func(f *floor) once {
			c := newComputer(1)
			return byHTTP(f, func() *http.Request {
				return c.signed(f.world, "/v1/workers/register", c.register(""), func(r *access.Request, _ *time.Time) { r.Cluster = "c2" })
			})
		}, 0},
		guard.Token: {func(f *floor) once {
			f.hired(1)
			c := newComputer(1)
			c.nonce = 100
			return byHTTP(f, func() *http.Request {
				return c.signed(f.world, "/v1/workers/token", api.WorkerTokenRequest{Client: 1}, nil)
			})
		}, 1},
		guard.Guess: {func(f *floor) once {
			return byHTTP(f, get(f, "POST", "/v1/workers/claim", f.token("user:ann", "work"), `{"claim_code":"AAAAA-AAAAA"}`))
		}, 0},
		guard.Owner: {func(f *floor) once { return byHTTP(f, get(f, "GET", "/v1/workers", f.token("user:ann", "work"), "")) }, 0},
		guard.Attach: {func(f *floor) once {
			return byConn(f, api.RPCAttach, func(api.WorkSession) any { return attaching() })
		}, 1},
		guard.Beat: {func(f *floor) once {
			return byConn(f, api.RPCBeat, func(s api.WorkSession) any { return api.WorkBeat{WorkSession: s} })
		}, 0},
		guard.Complete: {func(f *floor) once {
			return byConn(f, api.RPCComplete, func(s api.WorkSession) any {
				return api.WorkResults{WorkSession: s, Results: []api.WorkResult{{Attempt: ref(1), Output: output}}}
			})
		}, 0},
		guard.Call: {func(f *floor) once { return byConn(f, api.RPCAssigned, func(s api.WorkSession) any { return s }) }, 0},
	}
	for _, l := range guard.Limits() {
		row := rows[l]
		t.Run(l.String(), func(t *testing.T) {
			if row.by == nil {
				t.Fatal("nothing reaches it in this test")
			}
			f := startFloor(t)
			f.t = t
			ask := row.by(f)
			n := row.before
			says, wait := "", false
			for ok := true; ok && n < 1000; n++ {
				ok, says, wait = ask()
			}
			n--                               // the last was refused
			if float64(n) != l.Rate().Burst { // no time passes
				t.Errorf("%d were let through, want %.0f", n, l.Rate().Burst)
			}
			if !strings.Contains(says, "too many requests: limit "+l.String()) || !wait {
				t.Errorf("%q, says to wait %v", says, wait)
			}
			f.counted(map[string]float64{"skein_gateway_limited_total " + l.String(): 1})
		})
	}
}
