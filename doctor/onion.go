package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/onion"
	"github.com/skein-project/skein/proxy"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// Onion is this host's part in the onion addresses, and its tor.
type Onion struct {
	Enabled bool // there is a tor
	Tor     tor.Status
	onion.Status
}

// checkTorProgram looks, before a start, whether there would be a tor.
func checkTorProgram(ctx context.Context, h Host) verdict {
	c := h.Config.Tor
	switch {
	case !c.Enabled:
		return skipped("tor.enabled is not set")
	case c.Control != "":
		network, address := "tcp", c.Control
		if path, ok := strings.CutPrefix(c.Control, "unix:"); ok {
			network, address = "unix", path
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return failure("tor.control %s: %v", c.Control, err).advise("start that tor, or leave tor.control empty: the daemon then runs its own")
		}
		_ = conn.Close() // only probed
		return good("%s takes connections", c.Control)
	}
	path, err := tor.CheckProgram(ctx, c.Program)
	return judgeTorProgram(path, err)
}

func judgeTorProgram(path string, err error) verdict {
	const hint = "`apt install tor` provides it; its system service is not needed. Elsewhere: set tor.program"
	switch {
	case errors.Is(err, tor.ErrMissing), errors.Is(err, tor.ErrTooOld):
		return failure("%v", err).advise(hint)
	case err != nil:
		return failure("%v", err).advise("run `%s --version` as the user of the daemon", path)
	}
	return good("%s", path)
}

// judgeTor judges the tor of a running daemon.
func judgeTor(f Cluster) verdict {
	t := f.Onion.Tor
	const hint = "see `skein onion status` and the daemon's log; without tor this host serves and publishes no onion address, and has no second way to others"
	switch {
	case !f.Onion.Enabled:
		return skipped("tor.enabled is not set")
	case t.State == tor.StateReady:
		return good("%s is ready", t.Version)
	case t.State == tor.StateBootstrap:
		return warning("tor has come to %d %%%s", t.Bootstrap, reason(t.Err)).advise("can this host reach the Tor network? A firewall may need bridges: tor.torrc")
	}
	return failure("tor is %s%s", t.State, reason(t.Err)).advise(hint)
}

func reason(err string) string {
	if err == "" {
		return ""
	}
	return ": " + err
}

// targetTime is less than what a check of the daemon takes, so that one that hangs
// is reported in time.
const targetTime = 2 * time.Second

// checkTargets asks what this host serves, as the daemon does all the time.
func checkTargets(ctx context.Context, h Host) verdict {
	o := h.Config.Onion
	var asked, bad []string
	for _, name := range o.Targets {
		if !strings.Contains(name, ".onion:") { // through tor it takes longer; onion-hosts has it
			asked = append(asked, name)
		}
	}
	errs := make([]error, len(asked))
	var wg sync.WaitGroup
	for i, name := range asked {
		wg.Go(func() {
			errs[i] = proxy.CheckTarget(ctx, name, proxy.Options{
				Mode: o.Mode, Host: o.Host, Check: proxy.Check{Path: o.CheckPath, Low: o.CheckStatus.Low, High: o.CheckStatus.High, Within: targetTime},
			})
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			bad = append(bad, err.Error())
		}
	}
	return judgeTargets(h, asked, bad)
}

// judgeTargets judges the targets that were asked; bad says what is wrong with some.
func judgeTargets(h Host, asked, bad []string) verdict {
	o := h.Config.Onion
	how := fmt.Sprintf("start the service, or set onion.target; it must answer GET %s with status %s (onion.check_path, onion.check_status)", o.CheckPath, o.CheckStatus)
	if o.Mode == proxy.ModeTCP {
		how = "start the service, or set onion.target; it must take connections"
	}
	switch {
	case len(o.Targets) == 0:
		return skipped("onion.target is not set")
	case len(asked) == 0:
		return skipped("asked through tor only: see onion-hosts of a running daemon")
	case len(bad) == 0 && o.Mode == proxy.ModeTCP:
		return good("%s: connected, which a service that hangs allows too", strings.Join(asked, ", "))
	case len(bad) == 0:
		return good("%s: as it should", strings.Join(asked, ", "))
	case len(bad) == len(o.Targets) && h.running():
		return failure("%s", strings.Join(bad, "; ")).advise("%s", how)
	}
	return warning("%s", strings.Join(bad, "; ")).advise("%s", how)
}

// judgeOnionHosts finds hosts whose services fail.
func judgeOnionHosts(f Cluster) verdict {
	if v, ok := noOnions(f); ok {
		return v
	}
	if bad := f.Onion.Faults(); len(bad) > 0 {
		return warning("%s", strings.Join(bad, "; ")).
			advise("`skein doctor` on that host says what its service answers; `skein onion status` who is left out of the descriptors")
	}
	return good("the services of all hosts that are heard are healthy")
}

// noOnions is the verdict where there is nothing to judge.
func noOnions(f Cluster) (verdict, bool) {
	switch {
	case !f.Onion.Enabled:
		return skipped("tor.enabled is not set"), true
	case len(f.Onion.Addresses) == 0:
		return skipped("the cluster serves no onion address"), true
	}
	return verdict{}, false
}

// judgeOnionKeys finds addresses whose key too few hosts have.
func judgeOnionKeys(f Cluster) verdict {
	var list []verdict
	if len(f.Onion.Problems) > 0 {
		list = append(list, warning("%s", strings.Join(f.Onion.Problems, "; ")).advise("mend that file, or have a host that has the key grant it again: `skein onion grant ADDRESS %s`", f.View.Self))
	}
	if v, ok := noOnions(f); ok {
		return worse(list, v)
	}
	for _, a := range f.Onion.Addresses {
		address := descriptor.Address(a.Key).String()
		switch n := len(a.Keepers); {
		case n == 0 && a.HasKey:
			// It tells others of its keys once its tor is ready.
		case n == 0:
			list = append(list, failure("no host that is alive has the key of %s: nobody can publish it", address).
				advise("start the host that has it (onion/keys in its state directory), or `skein onion import` a copy"))
		case n == 1 && len(f.others()) > 0:
			list = append(list, warning("only one host has the key of %s: %s", address, a.Keepers[0]).
				advise("on %s: `skein onion grant %s NODE` for another host, so that it can publish, and `skein onion export` for a copy", a.Keepers[0], address))
		}
	}
	return worse(list, good("%s of every address", copies(f)))
}

// copies says how many hosts have a key at least.
func copies(f Cluster) string {
	least := 0
	for i, a := range f.Onion.Addresses {
		if i == 0 || len(a.Keepers) < least {
			least = len(a.Keepers)
		}
	}
	if least == 1 {
		return "one host, the only one, has the key"
	}
	return fmt.Sprintf("%d hosts or more have the key", least)
}

// foreignSpan is for how long a descriptor of somebody else is mentioned.
const foreignSpan = 24 * time.Hour

// judgeOnionPublisher finds addresses that others publish, or nobody.
func judgeOnionPublisher(f Cluster) verdict {
	if v, ok := noOnions(f); ok {
		return v
	}
	var list []verdict
	for _, a := range f.Onion.Addresses {
		address := descriptor.Address(a.Key).String()
		if a.PublishedBy == "" {
			list = append(list, warning("nobody is known to publish %s", address).advise("who has its key? See onion-keys and `skein onion status`"))
		}
		p := a.Publisher
		switch {
		case p == nil:
		case !p.Foreign.IsZero() && f.Wall.Sub(p.Foreign) < foreignSpan:
			list = append(list, failure("somebody else published %s %s ago", address, f.Wall.Sub(p.Foreign).Round(time.Second)).
				advise("stop whatever else has its key; if nobody knows what that is, use a new address: `skein onion init`"))
		case p.Publishing && p.Fenced:
			list = append(list, warning("another publisher of %s has a later term than this host", address).
				advise("has another cluster its key, or was this one restored from an old backup? It goes on when the other has published nothing for a while"))
		case p.Publishing && !p.Solo && p.Published.IsZero():
			list = append(list, warning("this host publishes %s and no directory has shown it yet", address).
				advise("see `skein onion verify %s` and `skein events --kind publish_failed`", address))
		}
	}
	return worse(list, good("%s", publishers(f)))
}

func publishers(f Cluster) string {
	seen := map[cluster.NodeID]bool{}
	var names []string
	for _, a := range f.Onion.Addresses {
		if !seen[a.PublishedBy] {
			seen[a.PublishedBy] = true
			names = append(names, string(a.PublishedBy))
		}
	}
	return strings.Join(names, ", ")
}
