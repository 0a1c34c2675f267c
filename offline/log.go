package offline

import (
	"fmt"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog/audit"
)

// logFiles is the event log of a state directory, opened for reading. A daemon may
// be using it, and its host may have left the cluster.
type logFiles struct {
	id      *join.Identity
	records member.Records
	roster  member.Roster
	dir     *audit.Dir
}

func openLogFiles(stateDir string) (*logFiles, error) {
	id, records, err := join.LoadPast(stateDir)
	if err != nil {
		return nil, err
	}
	l := &logFiles{id: id, records: records, roster: id.Roster(records)}
	l.dir, err = audit.OpenDir(audit.VerifyOptions{
		Dir: LogDir(stateDir), Cluster: id.Cluster.String(), Self: id.Node, KeyOf: l.roster.KeyOf,
	})
	if err != nil {
		return nil, fmt.Errorf("event log of %s: %w", stateDir, err)
	}
	return l, nil
}

// LogHeads returns the ends of the chains in a state directory, sorted by
// source. Their signatures are not checked.
func LogHeads(stateDir string) ([]event.Head, error) {
	l, err := openLogFiles(stateDir)
	if err != nil {
		return nil, adviseCommand(err)
	}
	return l.dir.Heads(), nil
}
