package join

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowSponsor: a sponsor that is too slow to answer is asked again, a few
// times; one that is not there at all only once.
func TestSlowSponsor(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails int // first tries that end so
		err   error
		asked int
		joins bool
	}{
		{"once too slow", 1, context.DeadlineExceeded, 2, true},
		{"always too slow", 100, context.DeadlineExceeded, maxAsks, false},
		{"not there", 100, errors.New("connection refused"), 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			o, asked := s.options("n2"), 0
			o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				if asked++; asked <= c.fails {
					return nil, c.err
				}
				var d net.Dialer
				return d.DialContext(ctx, "tcp", addr)
			}
			err := Join(t.Context(), s.token(1), t.TempDir(), o)
			if (err == nil) != c.joins || asked != c.asked {
				t.Errorf("asked %d times, %v", asked, err)
			}
			if err != nil && !errors.Is(err, c.err) {
				t.Errorf("the cause is lost: %v", err)
			}
			if silent, ok := errors.AsType[*UnansweredError](err); err != nil && (!ok || silent.Tries != c.asked || len(silent.Addrs) != 1) {
				t.Errorf("%+v", err)
			}
		})
	}
}

// TestPatience: who says how long a silent sponsor is asked gets that time, no less
// and no more, whatever the failure; what a wrong server says ends it at once.
func TestPatience(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	for name, fail := range map[string]func(context.Context) error{
		"silent":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"refused": func(context.Context) error { return syscall.ECONNREFUSED },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				o, asked := s.options("n2"), 0
				o.Patience = 5 * time.Minute
				o.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
					asked++
					return nil, fail(ctx)
				}
				start := time.Now()
				err := Join(t.Context(), tok, dir, o)
				silent, ok := errors.AsType[*UnansweredError](err)
				if took := time.Since(start); !ok || took != o.Patience || silent.Tries != asked || asked < 20 || asked > 150 {
					t.Errorf("after %s, %d tries: %v", took, asked, err)
				}
			})
		})
	}
	wrong := tok
	wrong.IDPub = pubOf(t, 9)
	o := s.options("n2")
	o.Patience = 5 * time.Minute
	if err := Join(t.Context(), wrong, t.TempDir(), o); !errors.Is(err, ErrPin) {
		t.Errorf("another server: %v", err)
	}
}
