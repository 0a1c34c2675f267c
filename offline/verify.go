package offline

import (
	"context"
	"fmt"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/eventlog/audit"
)

// VerifyLog checks the event log of a state directory, also of a host that left or
// whose daemon is running. The result says what is wrong with the log; an error
// means that it could not be checked.
func VerifyLog(ctx context.Context, stateDir string) (api.LogVerify, error) {
	id, records, err := join.LoadPast(stateDir)
	if err != nil {
		return api.LogVerify{}, adviseCommand(err)
	}
	report, err := audit.Verify(ctx, audit.VerifyOptions{
		Dir: LogDir(stateDir), Cluster: id.Cluster.String(), Self: id.Node,
		KeyOf: id.Roster(records).KeyOf, Used: !starts.First(stateDir),
	})
	out, err := convert.LogVerify(report, err)
	if err != nil {
		return out, fmt.Errorf("%s: %w", stateDir, err)
	}
	return out, nil
}
