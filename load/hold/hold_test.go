package hold

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestGate: who waits goes on when the gate opens or the end comes, and how long nothing was
// sent adds up.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		done := make(chan struct{})
		if g.Closed() || g.Wait(done) || g.Text() != "" {
			t.Error("a gate that nobody has closed")
		}
		g.Set(true)
		g.Set(true) // once more is no other time
		began := time.Now()
		time.AfterFunc(3*time.Second, func() { g.Set(false) })
		if !g.Wait(done) || time.Since(began) != 3*time.Second {
			t.Errorf("waited %s", time.Since(began))
		}
		time.Sleep(time.Minute)
		if !strings.Contains(g.Text(), "for 3s,") {
			t.Error(g.Text())
		}
		g.Set(true)
		time.AfterFunc(2*time.Second, func() { close(done) })
		if !g.Wait(done) || !g.Closed() {
			t.Error("it is open, or did not wait")
		}
		if !strings.Contains(g.Text(), "for 5s,") { // that goes on
			t.Error(g.Text())
		}
	})
}
