package onion

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/internal/tornet/tornettest"
	"github.com/skein-project/skein/tor"
)

// aMaster is an address whose key nobody has.
const aMaster = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"

// runTor runs a Tor until the test ends and waits until it is ready.
func runTor(t *testing.T, o tor.Options) *tor.Tor {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "tor")
	}
	o.Log = zerolog.Nop()
	x, err := tor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(limit):
			t.Error("tor does not stop")
		}
	})
	wait, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	if err := x.AwaitReady(wait); err != nil {
		t.Fatal(err)
	}
	return x
}

// backend answers each connection with a word.
func backend(t *testing.T, word string) string {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "b"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, word)
			conn.Close()
		}
	}()
	return "unix:" + l.Addr().String()
}

// eventually tries until it works.
func eventually(t *testing.T, what string, try func(context.Context) error) time.Duration {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return time.Since(begin).Round(10 * time.Millisecond)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func reach(x *tor.Tor, address, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := x.Dial(ctx, "test", address+":80")
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		got, err := io.ReadAll(conn)
		if err != nil {
			return err
		}
		if string(got) != want {
			return errors.New("got " + string(got))
		}
		return nil
	}
}

// TestNetwork is the life of a host's tor on a real network: an instance of a
// master address that is reached under its own, posts, is killed, comes back.
func TestNetwork(t *testing.T) {
	t.Parallel()
	n := sharedNetwork(t)
	service := tor.Service{
		Dir: filepath.Join(t.TempDir(), "service"), Ports: []tor.Port{{Virtual: 80, Target: backend(t, "hello")}},
		Masters: []string{aMaster},
	}
	begin := time.Now()
	host := runTor(t, tor.Options{Torrc: n.Torrc(), Services: []tor.Service{service}})
	t.Logf("host ready after %s", time.Since(begin).Round(time.Millisecond))
	client := runTor(t, tor.Options{Torrc: n.Torrc()})
	address, err := service.Address()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("descriptor after %s", eventually(t, "own descriptor", func(ctx context.Context) error {
		_, err := host.Descriptor(ctx, address)
		return err
	}))
	points := func(ctx context.Context) error {
		circuits, err := host.IntroCircuits(ctx)
		if err == nil && len(circuits) < tor.MinIntroPoints {
			return errors.New("too few introduction points")
		}
		return err
	}
	t.Logf("introduction points after %s", eventually(t, "introduction points", points))
	t.Logf("reached after %s", eventually(t, "reach", reach(client, address, "hello")))

	t.Run("post and fetch", func(t *testing.T) { postAndFetch(t, n, client, address) })

	told := make(chan tor.Snapshot, 100)
	watching, stop := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- host.Watch(watching, address, func(s tor.Snapshot) { told <- s }) }()
	defer func() {
		stop()
		if err := <-watched; err != nil {
			t.Error(err)
		}
	}()
	first := awaitSnapshot(t, told, func(s tor.Snapshot) bool { return len(s.Relays) >= tor.MinIntroPoints })
	old := host.Status().Pid
	begin = time.Now()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "restart", func(context.Context) error {
		if s := host.Status(); s.Pid == old || s.State != tor.StateReady {
			return errors.New("not yet ready: " + s.Err)
		}
		return nil
	})
	eventually(t, "introduction points", points)
	t.Logf("killed; points are back after %s", time.Since(begin).Round(time.Millisecond))
	awaitSnapshot(t, told, func(s tor.Snapshot) bool {
		return s.Descriptor != first.Descriptor && len(s.Relays) >= tor.MinIntroPoints
	})
	t.Logf("killed; the watcher was told after %s", time.Since(begin).Round(time.Millisecond))
	// One with a descriptor of before may try dead points for half a minute.
	client = runTor(t, tor.Options{Torrc: n.Torrc()})
	eventually(t, "reach", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		return reach(client, address, "hello")(ctx)
	})
	t.Logf("killed; reached again after %s", time.Since(begin).Round(time.Millisecond))
	if s := host.Status(); s.Restarts != 1 {
		t.Errorf("%d restarts, want 1", s.Restarts)
	}
}

func awaitSnapshot(t *testing.T, told <-chan tor.Snapshot, ok func(tor.Snapshot) bool) tor.Snapshot {
	t.Helper()
	end := time.After(limit)
	for {
		select {
		case s := <-told:
			if ok(s) {
				return s
			}
		case <-end:
			t.Fatal("the watcher was not told")
		}
	}
}

// postAndFetch posts a real descriptor to an HSDir that lacks it and fetches it
// from there; a second post has the same revision and is refused.
func postAndFetch(t *testing.T, n *tornet.Network, client *tor.Tor, address string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*limit)
	defer cancel()
	// The host's own answer is of no use here: for half of each period it is
	// the descriptor that clients no longer ask for.
	var text, hsdir string
	for _, r := range n.Relays() {
		f, err := r.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "asked "+f, func(ctx context.Context) error {
			found, err := client.Fetch(ctx, address, f)
			if err == nil {
				text = found
			} else if r, ok := errors.AsType[*tor.RejectedError](err); ok && r.Reason == "NOT_FOUND" {
				hsdir, err = f, nil
			}
			return err
		})
	}
	if text == "" || hsdir == "" {
		t.Fatalf("a descriptor of %d bytes, to be posted to %q", len(text), hsdir)
	}
	begin := time.Now()
	results, err := client.Upload(ctx, address, []string{hsdir}, text)
	if err != nil || len(results) != 1 || results[0].Err != nil {
		t.Fatalf("upload: %v, %v", results, err)
	}
	t.Logf("uploaded after %s", time.Since(begin).Round(time.Millisecond))
	fetched, err := client.Fetch(ctx, address, hsdir)
	if err != nil || fetched != text {
		t.Errorf("fetched %d bytes, posted %d: %v", len(fetched), len(text), err)
	}
	results, err = client.Upload(ctx, address, []string{hsdir}, text)
	if err != nil || len(results) != 1 || !tor.Rejected(results[0].Err) {
		t.Errorf("the same revision once more: %v, %v", results, err)
	}
	if err := client.Post(ctx, address, []string{strings.Repeat("A", 40)}, text); !errors.Is(err, tor.ErrUnknownRelay) {
		t.Errorf("unknown relay: %v", err)
	}
	broken := strings.Replace(text, "revision-counter", "revision-discounter", 1)
	if err := client.Post(ctx, address, []string{hsdir}, broken); !errors.Is(err, tor.ErrBadDescriptor) {
		t.Errorf("broken descriptor: %v", err)
	}
	consensus, err := client.Consensus(ctx)
	if err != nil || !strings.Contains(consensus, "shared-rand") && !strings.HasPrefix(consensus, "network-status-version") {
		t.Errorf("consensus of %d bytes: %v", len(consensus), err)
	}
	md, err := client.Microdescriptors(ctx)
	if err != nil || strings.Count(md, "ntor-onion-key ") < tornet.Relays {
		t.Errorf("microdescriptors of %d bytes: %v", len(md), err)
	}
	if is, err := client.TestingNetwork(ctx); err != nil || !is {
		t.Errorf("testing network: %t, %v", is, err)
	}
	if _, err := client.Descriptor(ctx, aMaster); !errors.Is(err, tor.ErrNoDescriptor) {
		t.Errorf("descriptor of a foreign address: %v", err)
	}
}

// TestAttach uses a tor that runs already.
func TestAttach(t *testing.T) {
	t.Parallel()
	n := sharedNetwork(t)
	other := tornettest.Run(t, n, "other")
	x := runTor(t, tor.Options{Attach: &tor.Attach{
		Control: "unix:" + other.ControlSocket(), Socks: "unix:" + other.SocksSocket(),
		Cookie: filepath.Join(other.Dir(), "control_auth_cookie"),
	}})
	if s := x.Status(); s.Pid != 0 || s.Version == "" {
		t.Errorf("attached: %+v", s)
	}
	if err := x.Reload(t.Context()); err == nil {
		t.Error("had a tor of somebody else read skein's configuration")
	}
	other.Kill()
	eventually(t, "notice", func(context.Context) error {
		if x.Status().State != tor.StateDown {
			return errors.New("not noticed")
		}
		return nil
	})
}

// TestNoSecrets looks for key material where others could see it.
func TestNoSecrets(t *testing.T) {
	n := sharedNetwork(t)
	service := tor.Service{Dir: filepath.Join(t.TempDir(), "service"), Ports: []tor.Port{{Virtual: 80, Target: "127.0.0.1:9"}}}
	t.Setenv("SKEIN_TEST_SECRET", "do-not-inherit")
	host := runTor(t, tor.Options{Torrc: n.Torrc(), Services: []tor.Service{service}})
	pid := host.Status().Pid
	for _, file := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
		if err != nil {
			t.Skipf("skipped: no /proc here: %v", err)
		}
		if strings.Contains(string(text), "do-not-inherit") || file == "cmdline" && len(slices.Collect(strings.SplitSeq(string(text), "\x00"))) > 6 {
			t.Errorf("%s of tor: %q", file, text)
		}
	}
	for _, file := range []string{"hs_ed25519_secret_key", "hs_ed25519_public_key", "hostname"} {
		info, err := os.Stat(filepath.Join(service.Dir, file))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
}
