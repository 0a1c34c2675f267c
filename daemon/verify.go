package daemon

import (
	"context"
	"fmt"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/eventlog"
)

// VerifyLog checks the event log of a state directory, which a daemon may be
// using, be it of a host that left. What is wrong with the log is told in the result; an error means that
// it could not be checked.
func VerifyLog(ctx context.Context, stateDir string) (api.LogVerify, error) {
	id, records, err := join.LoadPast(stateDir)
	if err != nil {
		return api.LogVerify{}, err
	}
	report, err := eventlog.Verify(ctx, eventlog.VerifyOptions{
		Dir: logDir(stateDir), Cluster: id.Cluster.String(), Self: id.Node,
		KeyOf: rosterOf(id, records).keyOf,
	})
	out, err := verified(report, err)
	if err != nil {
		return out, fmt.Errorf("verify event log of %s: %w", stateDir, err)
	}
	return out, nil
}
