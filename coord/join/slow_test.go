package join

import (
	"context"
	"errors"
	"net"
	"testing"
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
		})
	}
}
