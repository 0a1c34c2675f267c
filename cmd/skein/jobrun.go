package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// submitPatience is how long a submit is repeated while no holder answers: a
// failover takes less.
const submitPatience = time.Minute

// uploadTime bounds one upload.
const uploadTime = 10 * time.Minute

// jobFlags are the flags of job run.
type jobFlags struct {
	wasm, config, name, key, metric string
	iterations, chunk, memory, wait string
	seed                            uint64
	attempts                        int
	limit                           time.Duration
	follow                          bool
}

func (a *app) jobRun() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:   "run --wasm FILE --iterations N",
		Short: "Submit a job",
		Long: "Uploads the module and its config, submits the job and prints its id. With\n" +
			"--follow it shows the progress until the end, prints the results, and exits 8\n" +
			"if the job did not complete. Ctrl-C detaches; the job goes on.",
		Example: "  skein job run --wasm pi.wasm --iterations 1e9 --follow\n" +
			"  skein job run --wasm options.wasm --config book.json --iterations 1e8 --chunk 1e6",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runJob(cmd.Context(), f) },
	}
	x := cmd.Flags()
	x.StringVar(&f.wasm, "wasm", "", "WASI command module to run")
	x.StringVar(&f.config, "config", "", "file that each chunk gets on standard input")
	x.StringVar(&f.iterations, "iterations", "", "iterations of the whole job, like 1000000 or 1e6")
	x.StringVar(&f.chunk, "chunk", "", "iterations of one chunk (default: 256 chunks)")
	x.StringVar(&f.name, "name", "", "name to show")
	x.StringVar(&f.key, "key", "", "idempotency key: the same key again is the same job (default: a new one)")
	x.IntVar(&f.attempts, "attempts", 0, fmt.Sprintf("how often a chunk may be tried (default %d)", cluster.DefaultAttempts))
	x.DurationVar(&f.limit, "chunk-timeout", 0, fmt.Sprintf("limit of one attempt (default %s)", cluster.DefaultTimeout))
	x.StringVar(&f.memory, "memory", "", "limit of a chunk's memory, like 256M (the default)")
	x.Uint64Var(&f.seed, "seed", 0, "seed of the whole job")
	x.StringVar(&f.wait, "wait", string(api.WaitStable), "acknowledged when on this many disks: local (the holder's) or stable (a majority's)")
	x.BoolVarP(&f.follow, "follow", "f", false, "show the progress and wait for the end")
	x.StringVar(&f.metric, "metric", "", "metric in the progress line (default: the first)")
	return cmd
}

// spec checks the flags before anything is sent.
func (f jobFlags) spec() (cluster.JobSpec, error) {
	s := cluster.JobSpec{Name: f.name, Key: f.key, Seed: f.seed, Attempts: f.attempts, TimeoutSeconds: f.limit.Seconds()}
	if f.wasm == "" {
		return s, usagef("--wasm is missing").hint("give the module to run: --wasm FILE")
	}
	if f.iterations == "" {
		return s, usagef("--iterations is missing").hint("say how much there is to do: --iterations 1e6")
	}
	for _, one := range []struct {
		flag, text string
		parse      func(string) (uint64, error)
		to         *uint64
	}{
		{"--iterations", f.iterations, parseCount, &s.Iterations},
		{"--chunk", f.chunk, parseCount, &s.Chunk},
		{"--memory", f.memory, parseBytes, &s.MemoryBytes},
	} {
		if one.text == "" {
			continue
		}
		n, err := one.parse(one.text)
		if err != nil {
			return s, usagef("%s: %s", one.flag, err)
		}
		if n == 0 {
			return s, usagef("%s is 0, want at least 1", one.flag)
		}
		*one.to = n
	}
	if f.wait != string(api.WaitLocal) && f.wait != string(api.WaitStable) {
		return s, usagef("--wait is %q, want local or stable", f.wait)
	}
	if s.Key == "" {
		s.Key = "cli-" + rand.Text()
	}
	// The artefact's hash comes with the upload.
	try := s.WithDefaults()
	try.Artefact = cluster.Hash{1}
	if err := try.Validate(); err != nil {
		return s, usagef("%s", err)
	}
	return s, nil
}

func (a *app) runJob(ctx context.Context, f jobFlags) error {
	spec, err := f.spec()
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if spec.Artefact, err = a.upload(ctx, c, "--wasm", f.wasm, cluster.MaxModuleBytes); err != nil {
		return err
	}
	if f.config != "" {
		if spec.Config, err = a.upload(ctx, c, "--config", f.config, cluster.MaxConfigBytes); err != nil {
			return err
		}
	}
	resp, err := a.submit(ctx, c, api.SubmitRequest{Spec: spec, Wait: api.Wait(f.wait)})
	if err != nil {
		return err
	}
	what := "submitted"
	if !resp.Created {
		what = "submitted before, the same"
	}
	a.note("job %s %s: %d iterations in %s, on the disks of %s", short(resp.Job), what, resp.Spec.Iterations,
		plural(resp.Spec.Chunks(), "chunk"), plural(resp.StableVoters, "voter"))
	if f.follow {
		return a.follow(ctx, string(resp.Job), f.metric)
	}
	switch a.output {
	case "json", "jsonl":
		return a.show(view{body: resp})
	}
	fmt.Fprintln(a.out, resp.Job)
	return nil
}

// upload sends a file and returns its hash.
func (a *app) upload(ctx context.Context, c *api.Client, flag, path string, limit int64) (cluster.Hash, error) {
	f, err := os.Open(path)
	if err != nil {
		return cluster.Hash{}, usagef("%s: %s", flag, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return cluster.Hash{}, usagef("%s: %s", flag, err)
	case !info.Mode().IsRegular():
		return cluster.Hash{}, usagef("%s: %s is not a file", flag, path)
	case info.Size() == 0:
		return cluster.Hash{}, usagef("%s: %s is empty", flag, path)
	case info.Size() > limit:
		return cluster.Hash{}, usagef("%s: %s has %d bytes, at most %d are allowed", flag, path, info.Size(), limit)
	}
	var art api.Artefact
	err = a.patiently(ctx, func(ctx context.Context) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, uploadTime)
		defer cancel()
		art, err = c.PutArtefact(ctx, f)
		return err
	})
	if err != nil {
		return cluster.Hash{}, fmt.Errorf("upload %s: %w", path, err)
	}
	return art.Hash, nil
}

func (a *app) submit(ctx context.Context, c *api.Client, req api.SubmitRequest) (api.SubmitResponse, error) {
	var resp api.SubmitResponse
	err := a.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, max(a.timeout, 35*time.Second)) // a submit may wait for a majority
		defer cancel()
		var err error
		resp, err = c.Submit(ctx, req)
		return err
	})
	return resp, err
}

// patiently repeats f while its error passes: what it sends is idempotent. A
// daemon that was never there is reported at once.
func (a *app) patiently(ctx context.Context, f func(context.Context) error) error {
	began, said := time.Now(), ""
	for {
		err := f(ctx)
		_, away := errors.AsType[*api.UnreachableError](err)
		if err == nil || !api.Temporary(err) || ctx.Err() != nil || time.Since(began) > submitPatience || away && said == "" {
			return err
		}
		if err.Error() != said {
			said = err.Error()
			a.note("waiting: %s", said)
		}
		timer := time.NewTimer(500 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// follow watches a job to its end and shows what came of it.
func (a *app) follow(ctx context.Context, id, metric string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	bar := a.newProgress(metric)
	seen := false
	last, err := c.FollowJob(ctx, id, api.FollowOptions{Retry: func(cause error) error {
		if _, away := errors.AsType[*api.UnreachableError](cause); away && !seen {
			return cause
		}
		bar.lost(cause)
		return nil
	}}, func(j api.Job) error {
		seen = true
		bar.update(j)
		return nil
	})
	bar.end()
	if ctx.Err() != nil && !last.State.Final() {
		if last.ID != "" {
			id = string(last.ID)
		}
		a.note("detached, the job goes on; see it again with `skein job status --follow %s`", id)
		a.code = exitInterrupted
		return nil
	}
	if err != nil {
		return err
	}
	if err := a.showJob(last, nil); err != nil {
		return err
	}
	if last.State != cluster.JobCompleted {
		reason := ""
		if last.Reason != "" {
			reason = ": " + last.Reason
		}
		return failf(exitGoal, "job %s is %s%s", short(last.ID), last.State, reason).
			hint("the reasons of each failure: `skein job status %s`", short(last.ID))
	}
	return nil
}

func pathEscape(s string) string { return url.PathEscape(s) }
