package tornet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Sizes and times of a network.
const (
	authorities = 3
	minRelays   = 4
	// Relays is how many relays a network has if nothing else is said: fewer
	// make hosts share introduction points.
	Relays = 9
	// VotingInterval is the time from one consensus to the next.
	VotingInterval = 10 * time.Second
	// Period is the length of a time period of onion services, fixed by the
	// voting interval: shared randomness and period change in turn, each half
	// a period.
	Period = 24 * VotingInterval

	startTime = 120 * time.Second
	poll      = 100 * time.Millisecond
	prefix    = "skein-tornet-"
)

// Options say what network to start; the zero value is what tests want.
type Options struct {
	Relays int // 0: Relays
	// Interval is the time from one consensus to the next and divides half an
	// hour; 0: VotingInterval. A period has 24 of them.
	Interval time.Duration
	// SpreadStore and SpreadFetch are the directories of a descriptor, per
	// replica, that services use and that clients ask; 0: 2.
	SpreadStore, SpreadFetch int
	// Log receives a line for each stage; nil: silence.
	Log func(format string, args ...any)
}

// Network is a running private network.
type Network struct {
	dir    string
	log    func(string, ...any)
	starts *starter
	common []string // what every torrc begins with

	mu   sync.Mutex
	tors []*Tor // all that were started, the newest last
	keep bool
}

// Start starts a network, trying once more if the first attempt fails: the
// ports come from the system and may be taken between the choice and the use.
func Start(ctx context.Context, o Options) (*Network, error) {
	if o.Relays == 0 {
		o.Relays = Relays
	}
	if o.Relays < minRelays {
		return nil, fmt.Errorf("private tor network: %d relays, at least %d are needed", o.Relays, minRelays)
	}
	if o.Interval == 0 {
		o.Interval = VotingInterval
	}
	if o.SpreadStore == 0 {
		o.SpreadStore = 2
	}
	if o.SpreadFetch == 0 {
		o.SpreadFetch = 2
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if err := checkPrograms(ctx); err != nil {
		return nil, err
	}
	sweep()
	n, err := start(ctx, o)
	if err != nil && ctx.Err() == nil {
		o.Log("private tor network: %v; once more", err)
		n, err = start(ctx, o)
	}
	return n, err
}

func start(ctx context.Context, o Options) (*Network, error) {
	dir, err := os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, fmt.Errorf("private tor network: %w", err)
	}
	n := &Network{dir: dir, log: o.Log, starts: newStarter()}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := n.up(ctx, o); err != nil {
		n.Keep()
		_ = n.Close()
		return nil, fmt.Errorf("private tor network: %w (logs in %s)", err, dir)
	}
	return n, nil
}

func (n *Network) up(ctx context.Context, o Options) error {
	begin := time.Now()
	auths, err := n.makeAuthorities(ctx)
	if err != nil {
		return err
	}
	n.common = commonLines(auths)
	n.log("keys of %d authorities after %s", len(auths), round(begin))
	for _, a := range auths {
		if _, err := n.launch(a.name, []reserved{a.or, a.dir}, a.lines(o)); err != nil {
			return err
		}
	}
	for i := range o.Relays {
		if _, err := n.startRelay("relay" + strconv.Itoa(i)); err != nil {
			return err
		}
	}
	if err := n.AwaitRunning(ctx, authorities+o.Relays); err != nil {
		return err
	}
	n.log("all in the consensus after %s", round(begin))
	for _, t := range n.all() {
		if err := t.AwaitBootstrap(ctx); err != nil {
			return err
		}
	}
	n.log("all bootstrapped after %s", round(begin))
	return nil
}

func round(begin time.Time) time.Duration { return time.Since(begin).Round(100 * time.Millisecond) }

// Dir is the directory of everything.
func (n *Network) Dir() string { return n.dir }

// Torrc returns the lines by which a tor belongs to this network, whatever
// else it does.
func (n *Network) Torrc() []string { return slices.Clone(n.common) }

// Keep makes Close leave the directory.
func (n *Network) Keep() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keep = true
}

// Close kills every tor and removes the directory unless Keep was called.
func (n *Network) Close() error {
	for _, t := range n.all() {
		t.Kill()
	}
	n.starts.end()
	n.mu.Lock()
	keep := n.keep
	n.mu.Unlock()
	if keep {
		if err := os.WriteFile(filepath.Join(n.dir, keptFile), nil, 0o600); err != nil {
			return fmt.Errorf("keep private tor network: %w", err)
		}
		return nil
	}
	if err := os.RemoveAll(n.dir); err != nil {
		return fmt.Errorf("remove private tor network: %w", err)
	}
	return nil
}

func (n *Network) all() []*Tor {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.tors)
}

func (n *Network) withPrefix(name string) []*Tor {
	return slices.DeleteFunc(n.all(), func(t *Tor) bool { return !strings.HasPrefix(t.name, name) })
}

// Relays returns the relays, also those that were killed.
func (n *Network) Relays() []*Tor { return n.withPrefix("relay") }

// Authorities returns the directory authorities.
func (n *Network) Authorities() []*Tor { return n.withPrefix("auth") }

// RelayOf finds a relay or authority by its 40 hexadecimal digits.
func (n *Network) RelayOf(fingerprint string) (*Tor, bool) {
	for _, t := range append(n.Relays(), n.Authorities()...) {
		if f, err := t.Fingerprint(); err == nil && f == fingerprint {
			return t, true
		}
	}
	return nil, false
}

// AddRelay starts one more relay. It is in the consensus two voting intervals
// later, see AwaitRunning.
func (n *Network) AddRelay() (*Tor, error) {
	return n.startRelay("relay" + strconv.Itoa(len(n.Relays())))
}

// Revive starts a tor that was killed once more, with its keys and ports.
func (n *Network) Revive(t *Tor) (*Tor, error) {
	t.Kill()
	again, err := n.launch(t.name, nil, t.lines)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tors = slices.DeleteFunc(n.tors, func(x *Tor) bool { return x == t })
	return again, nil
}

func (n *Network) startRelay(name string) (*Tor, error) {
	or, err := reserve()
	if err != nil {
		return nil, err
	}
	return n.launch(name, []reserved{or}, relayLines(name, or.port))
}

// Launch starts a tor that belongs to the network, with a control socket, a
// socket for SOCKS and the lines given. The name is its directory's; a name
// that was used before gets the directory it had, with the keys in it.
func (n *Network) Launch(name string, lines ...string) (*Tor, error) {
	dir := filepath.Join(n.dir, name)
	return n.launch(name, nil, append([]string{"SocksPort unix:" + filepath.Join(dir, "socks")}, lines...))
}

// AwaitRunning waits until the consensus has as many running relays as said,
// authorities counted.
func (n *Network) AwaitRunning(ctx context.Context, count int) error {
	seen := 0
	for {
		if text, err := n.Consensus(ctx); err == nil {
			if seen = running(text); seen >= count {
				return nil
			}
		}
		// A port may have been taken since it was chosen.
		for _, t := range append(n.Authorities(), n.Relays()...) {
			if !t.Running() && !t.killed.Load() {
				return fmt.Errorf("%s ended: %s", t.name, t.LastLog())
			}
		}
		if err := pause(ctx, poll); err != nil {
			return fmt.Errorf("await %d running relays, %d are: %w", count, seen, err)
		}
	}
}

// Consensus fetches the consensus of the first authority that lives.
func (n *Network) Consensus(ctx context.Context) (string, error) {
	err := errors.New("no authority is alive")
	for _, t := range n.Authorities() {
		if !t.Running() {
			continue
		}
		var text string
		if text, err = get(ctx, "http://127.0.0.1:"+strconv.Itoa(t.dirPort)+"/tor/status-vote/current/consensus"); err == nil {
			return text, nil
		}
	}
	return "", fmt.Errorf("fetch consensus: %w", err)
}

func running(consensus string) (count int) {
	for line := range strings.SplitSeq(consensus, "\n") {
		if flags, ok := strings.CutPrefix(line, "s "); ok && slices.Contains(strings.Fields(flags), "Running") {
			count++
		}
	}
	return count
}

func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Close = true
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(body), nil
}

// pause waits between two looks.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// keptFile marks a directory whose logs somebody may want to read.
const (
	keptFile = "kept"
	keptTime = 24 * time.Hour
)

// sweep removes what networks of dead processes left, kept logs after a day.
func sweep() {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		if kept, err := os.Stat(filepath.Join(dir, keptFile)); err == nil && time.Since(kept.ModTime()) < keptTime {
			continue
		}
		if _, err := os.Stat(filepath.Join("/proc", pid)); errors.Is(err, os.ErrNotExist) {
			_ = os.RemoveAll(dir)
		}
	}
}
