package tornettest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/tornet"
)

// Shared is the one network of a test binary. It starts when the first test
// asks for it.
type Shared struct {
	once    sync.Once
	network *tornet.Network
	err     error
}

// Main runs the tests and ends the network; its result is the exit code.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	if s.network == nil {
		return code
	}
	if code != 0 {
		s.network.Keep()
		fmt.Fprintf(os.Stderr, "logs of the private tor network: %s\n", s.network.Dir())
	}
	if err := s.network.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// Get returns the running network. It skips the test where tor is missing.
func (s *Shared) Get(t testing.TB) *tornet.Network {
	t.Helper()
	require.Need(t, require.Tor)
	if testing.Short() {
		t.Skip("a private tor network takes half a minute")
	}
	s.once.Do(func() {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
		defer cancel()
		s.network, s.err = tornet.Start(ctx, tornet.Options{Log: t.Logf})
		t.Logf("private tor network after %s", time.Since(begin).Round(100*time.Millisecond))
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.network
}

// Run launches a tor for one test and waits for its bootstrap; it is killed
// with the test.
func Run(t testing.TB, n *tornet.Network, name string, lines ...string) *tornet.Tor {
	t.Helper()
	// A path of a unix socket has room for some 100 bytes.
	test := strings.ReplaceAll(t.Name(), "/", "_")
	x, err := n.Launch(test[:min(30, len(test))]+"."+name, lines...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := x.AwaitBootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	return x
}
