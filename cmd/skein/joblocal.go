package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/daemon"
)

// runLocal runs a job on this machine alone and shows what came of it. Which
// programs may run is in the configuration, as on a host.
func (a *app) runLocal(ctx context.Context, spec cluster.JobSpec, wasm, input, metric string) error {
	j := daemon.LocalJob{Spec: spec}
	var err error
	if wasm != "" {
		if j.Module, err = readLocal("--wasm", wasm, cluster.MaxModuleBytes); err != nil {
			return err
		}
	}
	if input != "" {
		if j.Input, err = readLocal("--input", input, cluster.MaxConfigBytes); err != nil {
			return err
		}
	}
	if spec.Executor == cluster.ExecutorExec {
		path, asked := a.configPath()
		cfg, err := config.Load(config.Options{Path: path, Optional: !asked, Env: a.env})
		if err != nil {
			return err
		}
		j.Exec = cfg.Exec
	}
	bar := a.newProgress(metric)
	j.Progress = bar.update
	job, err := a.local(ctx, j)
	bar.end()
	if errors.Is(err, context.Canceled) {
		a.note("stopped with %d of %s done", job.Chunks.Accepted, plural(job.Chunks.Total, "chunk"))
		a.code = exitInterrupted
		return nil
	}
	if err != nil {
		return err
	}
	return a.ended(job)
}

// readLocal reads a file of at most limit bytes.
func readLocal(flag, path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("%s: %s", flag, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, usagef("%s: %s", flag, err)
	case len(b) == 0:
		return nil, usagef("%s: %s is empty", flag, path)
	case int64(len(b)) > limit:
		return nil, usagef("%s: %s has more than the %d bytes that are allowed", flag, path, limit)
	}
	return b, nil
}

// ended shows a job that has ended, and sets the exit code.
func (a *app) ended(j api.Job) error {
	if err := a.showJob(j, nil); err != nil {
		return err
	}
	if j.State == cluster.JobCompleted {
		return nil
	}
	reason := ""
	if j.Reason != "" {
		reason = ": " + j.Reason
	}
	return failf(exitGoal, "job %s is %s%s", short(j.ID), j.State, reason)
}
