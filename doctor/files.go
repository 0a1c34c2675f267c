package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/coord/store"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/internal/durable"
)

// checkFiles reads the small files of the state directory.
func checkFiles(_ context.Context, h Host) verdict {
	if _, err := os.Stat(h.Config.StateDir); errors.Is(err, fs.ErrNotExist) {
		return skipped("%s does not exist yet", h.Config.StateDir)
	}
	return judgeFiles(h, DamagedFiles(h.Config.StateDir))
}

// DamagedFiles says which files of a state directory are damaged or missing.
func DamagedFiles(dir string) []error {
	bad := join.Check(dir)
	for _, f := range []*durable.File{durable.Endpoints, durable.Seen, durable.Forced} {
		if err := f.Check(dir); err != nil {
			bad = append(bad, err)
		}
	}
	id, _, err := join.LoadPast(dir)
	if err != nil {
		return bad // it is one of those
	}
	if err := store.New(dir, id.Cluster, id.Node).CheckVote(!starts.First(dir)); err != nil {
		bad = append(bad, err)
	}
	return bad
}

// judgeFiles judges what is wrong with files: a failure where the daemon does not go
// on by itself.
func judgeFiles(h Host, bad []error) verdict {
	var list []string
	hint := ""
	for _, err := range bad {
		if errors.Is(err, fs.ErrPermission) {
			return unseen(h, h.Config.StateDir, err)
		}
		list = append(list, err.Error())
		if advised, ok := errors.AsType[interface {
			error
			Hint() string
		}](err); ok && hint == "" {
			hint = advised.Hint()
		}
	}
	text := strings.Join(list, "; ")
	switch {
	case len(bad) == 0:
		return good("each has what was written")
	case hint == "":
		return warning("%s", text).advise("find out why the disk changed or lost it; the daemon goes on")
	}
	return failure("%s", text).advise("%s", hint)
}

// checkLog reads the chains of the event log, which no daemon uses.
func checkLog(ctx context.Context, h Host) verdict {
	dir := h.Config.StateDir
	id, records, err := join.LoadPast(dir)
	if err != nil {
		return skipped("no member's state directory that can be read")
	}
	report, err := audit.Verify(ctx, audit.VerifyOptions{
		Dir: filepath.Join(dir, starts.LogDir), Cluster: id.Cluster.String(), Self: id.Node,
		KeyOf: id.Roster(records).KeyOf, ChainsOnly: true, Used: !starts.First(dir),
	})
	return judgeLog(h, report.Events, err)
}

func judgeLog(h Host, events uint64, err error) verdict {
	switch corrupt, ok := errors.AsType[*segment.CorruptError](err); {
	case ok:
		return failure("%v", corrupt).advise("%s", corrupt.Hint())
	case errors.Is(err, context.DeadlineExceeded):
		return skipped("it takes longer than %s", checkTime).advise("run `skein log verify`")
	case err != nil:
		return unseen(h, filepath.Join(h.Config.StateDir, starts.LogDir), err)
	}
	return good("%d events", events)
}
