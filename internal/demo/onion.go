package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/internal/wait"
)

// Shape of the demo of the onion address.
const (
	onionDemoTime = 10 * time.Minute // limit of the whole demo, which takes 2 to 3 min on an idle machine
	onionVisits   = 12               // of the client, before and after the kill
	visitTime     = 70 * time.Second // of one try: tor itself begins anew after 31 s, and once more
	visitTries    = 3                // before a client gives up
	visitLong     = 10 * time.Second // after which a try is worth a line
)

// Rotations of the private network, in which every tor takes new introduction
// points: so often that one would come between the kill and what it shows.
const (
	rotationEvery = tornet.Period / 2
	rotationRoom  = time.Minute      // for what follows the kill, mostly
	rotationAfter = 15 * time.Second // until all is as before
)

// untilCalm is how long to wait until no rotation is near.
func untilCalm(now time.Time) time.Duration {
	since := now.Sub(now.Truncate(rotationEvery))
	switch {
	case since < rotationAfter:
		return rotationAfter - since
	case rotationEvery-since < rotationRoom:
		return rotationEvery - since + rotationAfter
	}
	return 0
}

// OnionResult is what one demo of the onion address measured.
type OnionResult struct {
	// Gap is the time from the kill to the first descriptor of another host.
	Gap time.Duration
	// Served are the client's visits from the kill on, Failed the tries that
	// these needed beyond their first.
	Served, Failed int
}

// RunOnion starts a private Tor network and three hosts on this machine that
// serve one .onion address, lets a client fetch from it and kills the host that
// publishes while the client continues. It leaves nothing behind and no traffic
// leaves the machine.
func RunOnion(ctx context.Context, o Options) (result OnionResult, err error) {
	err = inDirectory(ctx, o, onionDemoTime, func(ctx context.Context, d *demo) error {
		return d.runOnion(ctx, &result)
	})
	return result, err
}

func (d *demo) runOnion(ctx context.Context, result *OnionResult) error {
	d.say("starting a private Tor network out of tor on this machine")
	network, err := tornet.Start(ctx, tornet.Options{Log: d.say})
	if err != nil {
		return err
	}
	defer func() { _ = network.Close() }()
	defer d.stopAll() // before their network
	d.say("private Tor network up: %d authorities, %d relays, nothing leaves this machine", len(network.Authorities()), len(network.Relays()))
	targets := make([]string, d.size)
	for i := range targets {
		server, address, err := webServer(fmt.Sprintf("n%d", i+1))
		if err != nil {
			return err
		}
		defer func() { _ = server.Close() }()
		targets[i] = address
	}
	d.settings = func(i int) string { return onionSettings(network.Torrc(), targets[i]) }
	if err := d.up(ctx); err != nil {
		return err
	}
	if err := d.torsReady(ctx); err != nil {
		return err
	}
	client, err := network.Launch("client")
	if err != nil {
		return err
	}
	if err := client.AwaitBootstrap(ctx); err != nil {
		return err
	}
	d.say("the tor of a client, which knows nothing of skein, is ready")
	address, err := d.address(ctx)
	if err != nil {
		return err
	}
	d.say("waiting for the points of all hosts in the descriptor")
	publisher, view, err := d.published(ctx, func(a api.OnionAddress) bool { return len(a.Points) == d.size })
	if err != nil {
		return err
	}
	d.say("%s publishes one descriptor with the introduction points of all: %s", publisher.name, counts(view.Points))
	v := visitor{say: d.say, fetch: func(ctx context.Context, user string) (string, error) { return fetch(ctx, client, user, address) }, by: map[string]int{}}
	d.say("a client connects")
	if err := v.first(ctx); err != nil {
		return err
	}
	if err := v.all(ctx, d.size, client.Fresh); err != nil {
		return err
	}
	d.say("a client fetched http://%s/ %d times through Tor, served by %s", address, v.served, counts(v.by))
	if pause := untilCalm(time.Now()); pause > 0 {
		d.say("waiting %.0f s: all tors take new introduction points, every %s here and once a day in the public network", pause.Seconds(), rotationEvery)
		if err := wait.For(ctx, pause); err != nil {
			return err
		}
	}
	return d.killPublisher(ctx, publisher, &v, result)
}

// torsReady waits for the tor of each host, and says how far it is.
func (d *demo) torsReady(ctx context.Context) error {
	said := make([]int, len(d.hosts)) // percent
	for ready := 0; ready < len(d.hosts); {
		ready = 0
		for i, h := range d.hosts {
			o, err := h.api.Onion(ctx)
			if err != nil {
				continue // the daemon may be busy; ctx bounds this
			}
			if o.Tor.State == "ready" {
				ready++
			}
			if p := o.Tor.Bootstrap; p >= said[i]+torStep || p == 100 && said[i] < 100 {
				said[i] = p
				d.say("the tor of %s: %d %%", h.name, p)
			}
		}
		if err := wait.For(ctx, pollEvery); err != nil {
			return fmt.Errorf("the tors of %d of %d hosts are ready: %w", ready, len(d.hosts), err)
		}
	}
	return nil
}

// torStep is after how many percent the progress of a tor is shown.
const torStep = 40

// address creates an address and gives its key to every host.
func (d *demo) address(ctx context.Context) (string, error) {
	first := d.hosts[0]
	var made api.OnionChanged
	for {
		var err error
		if made, err = first.api.AddOnion(ctx, api.OnionRequest{}); err == nil {
			break
		}
		if pauseErr := wait.For(ctx, pollEvery); pauseErr != nil {
			return "", err
		}
	}
	for _, h := range d.hosts[1:] {
		if _, err := first.api.GrantOnion(ctx, made.Address, cluster.NodeID(h.name)); err != nil {
			return "", err
		}
	}
	d.say("%s made the address %s, all hosts keep its key, sealed", first.name, made.Address)
	return made.Address, nil
}

// published waits for a living host that publishes a descriptor that ok accepts.
func (d *demo) published(ctx context.Context, ok func(api.OnionAddress) bool) (*host, api.OnionAddress, error) {
	var last error
	for {
		for _, h := range d.hosts {
			if !h.alive() {
				continue
			}
			o, err := h.api.Onion(ctx)
			last = err
			if err == nil && len(o.Addresses) == 1 && o.Addresses[0].Publishing && o.Addresses[0].PublishedAt != nil && ok(o.Addresses[0]) {
				return h, o.Addresses[0], nil
			}
		}
		if err := wait.For(ctx, pollEvery); err != nil {
			return nil, api.OnionAddress{}, errors.Join(errors.New("no host published the descriptor in time"), last)
		}
	}
}

// killPublisher kills the publisher while the client keeps fetching.
func (d *demo) killPublisher(ctx context.Context, dead *host, v *visitor, result *OnionResult) error {
	at := time.Now()
	if err := killGroup(dead.cmd.Process); err != nil {
		return fmt.Errorf("stop %s: %w", dead.name, err)
	}
	<-dead.done
	d.say("SIGKILL to the publisher %s and its tor; the client goes on", dead.name)
	v.by, v.served, v.failed = map[string]int{}, 0, 0
	visits, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for visits.Err() == nil {
			_ = v.visit(ctx) // counted
		}
	}()
	next, view, err := d.published(ctx, func(a api.OnionAddress) bool {
		return a.PublishedAt.After(at) && len(a.Points) == d.size-1 && a.Points[cluster.NodeID(dead.name)] == 0
	})
	if err == nil {
		result.Gap = view.PublishedAt.Sub(at)
		d.say("%s publishes without it %.1f s after the kill: %s", next.name, result.Gap.Seconds(), counts(view.Points))
	}
	stop()
	<-ended
	if err != nil {
		return err
	}
	for range onionVisits {
		if err := v.visit(ctx); err != nil {
			return fmt.Errorf("after the new descriptor: %w", err)
		}
	}
	result.Served, result.Failed = v.served, v.failed
	d.say("since the kill the client was served %d times, by %s; tries that failed: %d", v.served, counts(v.by), v.failed)
	return nil
}

// onionSettings returns the additional configuration of a host.
func onionSettings(torrc []string, target string) string {
	quoted := make([]string, len(torrc))
	for i, line := range torrc {
		quoted[i] = fmt.Sprintf("%q", line)
	}
	return fmt.Sprintf("[tor]\nenabled = true\ntorrc = [%s]\n[onion]\ntarget = %q\n", strings.Join(quoted, ", "), target)
}

// webServer starts the web server of one host, which answers with the host's name.
func webServer(name string) (*http.Server, string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // binds at once
	if err != nil {
		return nil, "", fmt.Errorf("web server of %s: %w", name, err)
	}
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, name)
	})}
	go func() { _ = s.Serve(l) }() // ends with Close
	return s, l.Addr().String(), nil
}

// visitor is a client of the address, who tries again as a person would.
type visitor struct {
	say            func(format string, args ...any)
	fetch          func(ctx context.Context, user string) (string, error)
	tries          int
	served, failed int            // visits and tries
	by             map[string]int // served, by host
}

// first visits until it is served once: the client may need several tries to find
// the descriptor.
func (v *visitor) first(ctx context.Context) error {
	for v.served == 0 {
		if err := v.visit(ctx); ctx.Err() != nil {
			return fmt.Errorf("at first: %w", err)
		}
	}
	v.served, v.failed, v.by = 0, 0, map[string]int{}
	return nil
}

// all visits until every host has served. It clears the client's caches now and
// then: the client would keep using a descriptor that does not list all hosts yet
// for hours.
func (v *visitor) all(ctx context.Context, hosts int, clear func(context.Context) error) error {
	for len(v.by) < hosts || v.served < onionVisits {
		if v.served%onionVisits == 0 {
			if err := clear(ctx); err != nil {
				return err
			}
		}
		if err := v.visit(ctx); err != nil {
			return fmt.Errorf("with all hosts up: %w", err)
		}
	}
	return nil
}

// visit fetches once, each try over a new connection, on new circuits.
func (v *visitor) visit(ctx context.Context) error {
	var last error
	for range visitTries {
		v.tries++
		begin := time.Now()
		limit, cancel := context.WithTimeout(ctx, visitTime)
		name, err := v.fetch(limit, fmt.Sprint("visit", v.tries))
		cancel()
		switch took := time.Since(begin); {
		case ctx.Err() != nil:
		case err != nil:
			v.say("a try of the client failed after %.1f s: %v", took.Seconds(), err)
		case took > visitLong:
			v.say("a try of the client took %.1f s: a tor that gets nowhere begins anew after 31 s", took.Seconds())
		}
		if err == nil {
			v.served++
			v.by[name]++
			return nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
		v.failed++
	}
	// Not wrapped: it is not this command's deadline.
	return fmt.Errorf("the client was not served in %d tries: %v", visitTries, last) //nolint:errorlint // see above
}

func fetch(ctx context.Context, client *tornet.Tor, user, address string) (string, error) {
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, at string) (net.Conn, error) { return client.Dial(ctx, user, at) },
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	name, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered %s: %s", resp.Status, name)
	}
	return string(name), err
}

// counts formats how many each host has, on one line.
func counts[K ~string](m map[K]int) string {
	words := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(words, ", ")
}
