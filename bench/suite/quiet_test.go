package suite

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitQuiet waits while the load falls, and gives up when it does not.
func TestAwaitQuiet(t *testing.T) {
	for _, c := range []struct {
		name   string
		loads  []string // one a second, the last for ever
		want   string
		waited time.Duration
	}{
		{"quiet", []string{"0.50"}, "", 0},
		{"falls", []string{"2.10", "0.9", "0.49"}, "", 2 * time.Second},
		{"busy", []string{"6.80"}, "the load before the run is 6.80, above 0.5", time.Minute},
		{"no load average here", []string{"unknown"}, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				read := func() string {
					return c.loads[min(int(time.Since(began)/time.Second), len(c.loads)-1)]
				}
				err := AwaitQuiet(t.Context(), read, time.Minute, time.Second)
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if took := time.Since(began); took != c.waited {
					t.Errorf("took %s, want %s", took, c.waited)
				}
			})
		})
	}
}
