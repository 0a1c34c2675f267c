package jobs

import (
	"context"
	"errors"
	"io"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/present"
)

// runLocal runs a job on this machine alone and shows what came of it. Which
// programs may run is in the configuration, as on a host.
func runLocal(a *cli.App, ctx context.Context, d Options, f jobFlags, of localFiles) error {
	j, err := of.job(f.to)
	if err != nil {
		return err
	}
	if of.spec.Executor == job.ExecutorExec {
		path, asked := a.ConfigPath()
		cfg, err := config.Load(config.Options{Path: path, Optional: !asked, Env: a.Env})
		if err != nil {
			return err
		}
		j.Exec = cfg.Exec
	}
	bar := newProgress(a, f.metric)
	// A module is compiled anew each time, and without --chunk tried: nothing runs meanwhile.
	stop := func() {}
	if of.spec.Executor != job.ExecutorExec {
		stop = (&waiting{a: a}).after(ctx, func(context.Context) string { return "the module is compiled for this machine" })
	}
	j.Progress = func(now api.Job) {
		stop()
		bar.update(now)
	}
	job, err := d.Local(ctx, j)
	stop()
	bar.end()
	if errors.Is(err, context.Canceled) {
		a.Note("stopped with %d of %s done", job.Chunks.Accepted, present.Plural(job.Chunks.Total, "chunk"))
		a.Code = cli.ExitInterrupted
		return nil
	}
	if err != nil {
		return err
	}
	return ended(a, job)
}

// localFiles is a job, and where what it needs lies.
type localFiles struct {
	spec        job.Spec
	wasm, input string
	files       map[string]string // by name, for its chunks
}

// job reads what a job needs; what its chunks leave goes below a directory.
func (l localFiles) job(to string) (j offline.LocalJob, err error) {
	j = offline.LocalJob{Spec: l.spec, Files: l.files, To: to}
	if l.wasm != "" {
		if j.Module, err = readLocal("--wasm", l.wasm, job.MaxModuleBytes); err != nil {
			return j, err
		}
	}
	if l.input != "" {
		if j.Input, err = readLocal("--input", l.input, job.MaxConfigBytes); err != nil {
			return j, err
		}
	}
	return j, nil
}

// readLocal reads a file of at most limit bytes.
func readLocal(flag, path string, limit int64) ([]byte, error) {
	f, err := openUpload(flag, path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, cli.Usagef("%s: %s", flag, err)
	}
	return b, nil
}

// ended shows a job that has ended, and sets the exit code.
func ended(a *cli.App, j api.Job) error {
	if err := showJob(a, j, nil); err != nil {
		return err
	}
	if j.State == job.Completed {
		return nil
	}
	reason := ""
	if j.Reason != "" {
		reason = ": " + j.Reason
	}
	return cli.Failf(cli.ExitGoal, "job %s is %s%s", present.Short(j.ID), j.State, reason)
}
