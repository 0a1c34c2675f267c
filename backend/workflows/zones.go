package workflows

import (
	"fmt"
	"strings"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
)

// checkZones refuses a definition with a job in zones none of which any host is in, which
// would wait, as long as nobody is, and with one of several that no host is in: likely it
// is another's name. A zone that comes of an expression is not known yet.
func checkZones(def flow.Def, known func(zone string) bool) error {
	for _, s := range def.Steps {
		for _, spec := range s.Jobs() {
			for _, z := range spec.Zones {
				if strings.Contains(z, "${") || known(z) {
					continue
				}
				return api.Errorf(api.CodeInvalidJob, "step %s: no host is in zone %s", s.Name, clip(fmt.Sprintf("%q", z), 80)).
					WithHint("`skein zones` lists them. Or let it wait for a worker: --wait-for-worker, wait_for_worker")
			}
		}
	}
	return nil
}
