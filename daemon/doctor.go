package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// Groups of findings.
const (
	groupHost    = "host"
	groupMesh    = "mesh"
	groupCluster = "cluster"
)

// checkTime bounds one check; what takes longer is skipped.
const checkTime = 3 * time.Second

// verdict is what one check found.
type verdict struct {
	v            api.Verdict
	detail, hint string
}

func good(format string, args ...any) verdict {
	return verdict{v: api.VerdictOK, detail: fmt.Sprintf(format, args...)}
}

func warning(format string, args ...any) verdict {
	return verdict{v: api.VerdictWarn, detail: fmt.Sprintf(format, args...)}
}

func failure(format string, args ...any) verdict {
	return verdict{v: api.VerdictFail, detail: fmt.Sprintf(format, args...)}
}

func skipped(format string, args ...any) verdict {
	return verdict{v: api.VerdictSkip, detail: fmt.Sprintf(format, args...)}
}

func (v verdict) advise(format string, args ...any) verdict {
	v.hint = fmt.Sprintf(format, args...)
	return v
}

// check is one examination. Its name is also its heading in the documents.
type check struct {
	group, name string
	run         func(ctx context.Context) verdict
}

// examine runs the checks side by side and returns what they found, in their
// order. A check that does not end in time is given up; it ends by itself.
func examine(ctx context.Context, checks []check) []api.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	out := make([]api.Finding, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			found := make(chan verdict, 1)
			go func() { found <- c.run(ctx) }()
			v := verdict{}
			select {
			case v = <-found:
			case <-ctx.Done():
				select { // both may be there
				case v = <-found:
				default:
					v = skipped("not finished within %s", checkTime)
				}
			}
			out[i] = api.Finding{
				Group: c.group, Check: c.name, Verdict: v.v, Detail: v.detail, Hint: v.hint, Doc: "docs/operations.md#" + c.name,
			}
		})
	}
	wg.Wait()
	return out
}

// hostFacts is what the checks of a host need to know beforehand.
type hostFacts struct {
	cfg config.Config
	// networks of the mesh; of a host that is no member yet, the default.
	networks []netip.Prefix
	// backend is the one in use; empty if no daemon runs in this process.
	backend string
	// towards are underlay addresses of peers.
	towards []netip.Addr
}

func (f hostFacts) running() bool { return f.backend != "" }

// needsAdmin reports whether the mesh needs CAP_NET_ADMIN.
func (f hostFacts) needsAdmin() bool { return f.cfg.Mesh.Backend != config.BackendNetstack }

// hostChecks are the checks that need no other host.
func hostChecks(f hostFacts) []check {
	one := func(name string, run func(context.Context, hostFacts) verdict) check {
		return check{groupHost, name, func(ctx context.Context) verdict { return run(ctx, f) }}
	}
	return []check{
		one("file-modes", checkFileModes),
		one("state-dir-writable", checkStateDir),
		one("disk-space", checkDisk),
		one("names-file", checkNamesFile),
		one("capabilities", checkCapabilities),
		one("tun-device", checkTUN),
		one("wireguard-backend", checkBackend),
		one("mesh-interface", checkInterface),
		one("udp-port", checkUDPPort),
		one("join-port", checkJoinPort),
		one("route-overlap", checkOverlap),
	}
}

// Doctor examines this host without a daemon: before the first start, or when
// none answers.
func Doctor(ctx context.Context, cfg config.Config) []api.Finding {
	f := hostFacts{cfg: cfg, networks: []netip.Prefix{netip.MustParsePrefix(DefaultNetwork)}}
	if id, records, err := join.Load(cfg.StateDir); err == nil {
		f.networks = networksOf(id)
		table := member.NewTable(id.Verifier())
		_, _ = table.Restore(records, time.Now()) // the daemon reports what is refused
		for _, m := range table.Members() {
			if m.Node == id.Node {
				continue
			}
			for _, e := range m.Endpoints {
				f.towards = append(f.towards, e.Addr())
			}
		}
	}
	checks := append(hostChecks(f),
		check{groupHost, "clock-sync", func(context.Context) verdict { return checkKernelClock() }},
		check{groupMesh, "mtu", func(context.Context) verdict { return checkUnderlayMTU(f.towards) }},
	)
	return examine(ctx, checks)
}

// networksOf are the cluster's networks.
func networksOf(id *join.Identity) []netip.Prefix {
	return []netip.Prefix{id.Network.Masked(), member.ULAPrefix(id.Cluster)}
}
