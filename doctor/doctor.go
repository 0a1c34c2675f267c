package doctor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
)

// Groups of findings.
const (
	groupHost    = "host"
	groupMesh    = "mesh"
	groupCluster = "cluster"
)

// checkTime bounds one check; a check that takes longer is reported as skipped.
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

// check is one examination. Its name is also its heading in docs/operations.md.
type check struct {
	group, name string
	run         func(ctx context.Context) verdict
}

// run runs the checks in parallel and returns what they found, in their order. A
// check that does not finish in time is abandoned; it ends by itself.
func run(ctx context.Context, checks []check) []api.Finding {
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

// Examine returns what a running daemon finds out about its host and cluster.
func Examine(ctx context.Context, h Host, c Cluster) []api.Finding {
	h.uid = os.Geteuid()
	return run(ctx, append(hostChecks(h), clusterChecks(c, checkKernelClock)...))
}

// Alone examines this host without a daemon: before the first start, or when
// none answers; unasked says that one seems to run that may not be asked.
func Alone(ctx context.Context, cfg config.Config, unasked bool) []api.Finding {
	h, towards := gatherAlone(cfg)
	h.Unasked = unasked
	return run(ctx, append(hostChecks(h),
		check{groupHost, "membership", func(ctx context.Context) verdict { return checkMembership(ctx, h) }},
		check{groupHost, "event-log", func(ctx context.Context) verdict { return checkLog(ctx, h) }},
		check{groupHost, "clock-sync", func(context.Context) verdict { return checkKernelClock() }},
		check{groupHost, "tor", func(ctx context.Context) verdict { return checkTorProgram(ctx, h) }},
		check{groupMesh, "mtu", func(context.Context) verdict { return checkUnderlayMTU(towards) }},
	))
}
