package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/internal/wait"
)

// TestTicker: tickers that were started at different moments tick at the same.
func TestTicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().Truncate(10 * time.Second).Add(10 * time.Second)
		time.Sleep(time.Until(start))
		a := wait.NewTicker(time.Second)
		defer a.Stop()
		time.Sleep(300 * time.Millisecond)
		b := wait.NewTicker(time.Second)
		defer b.Stop()
		time.Sleep(500 * time.Millisecond)
		c := wait.NewTicker(2 * time.Second)
		defer c.Stop()
		for i := range 6 {
			for _, k := range []*wait.Ticker{a, b, c} {
				if k == c && i%2 == 0 {
					continue
				}
				<-k.C
				if at, want := time.Since(start), time.Duration(i+1)*time.Second; at != want {
					t.Fatalf("tick %d at %s, want %s", i, at, want)
				}
				k.Next()
			}
		}
		b.Stop()
		time.Sleep(5 * time.Second)
		select {
		case <-b.C:
			t.Error("stopped, and ticks")
		default:
		}
	})
}
