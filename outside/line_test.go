package outside

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/centrifugal/centrifuge-go"
)

// TestCallEnds: a call ends when its time is over, also where the client library hangs.
func TestCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		l := &line{rpc: func(context.Context, string, []byte) (centrifuge.RPCResult, error) {
			<-hung
			return centrifuge.RPCResult{}, nil
		}}
		began := time.Now()
		if err := l.call(t.Context(), "beat", struct{}{}, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != callTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(hung)
	})
}
