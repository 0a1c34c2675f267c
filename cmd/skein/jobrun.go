package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
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
	file, metric string
	set          []string
	follow, dry  bool
	local        bool
}

// textFlags are the flags of job run that stand for keys of a job file.
var textFlags = [...]struct{ flag, key, doc string }{
	{"wasm", keyWasm, "WASI command module to run"},
	{"program", "program", "program to run instead, by the name under which hosts allow it"},
	{"input", keyInput, "file that each chunk gets on standard input, the job's config"},
	{"iterations", "iterations", "iterations of the whole job, like 1000000 or 1e6"},
	{"chunk", "chunk", "iterations of one chunk (default: 256 chunks)"},
	{"name", "name", "name to show"},
	{"key", "key", "idempotency key: the same key again is the same job (default: a new one)"},
	{"attempts", "attempts", fmt.Sprintf("how often a chunk may be tried (default %d)", cluster.DefaultAttempts)},
	{"chunk-timeout", "timeout_seconds", fmt.Sprintf("limit of one attempt (default %s)", cluster.DefaultTimeout)},
	{"memory", "memory_bytes", "limit of a chunk's memory, like 256M (the default)"},
	{"seed", "seed", "seed of the whole job"},
	{"priority", "priority", "among the owner's jobs, lower goes first (default 100)"},
	{"deadline", "deadline_seconds", "the job ends as timeout when it is not done by then, like 2h"},
	{"keep", "keep_seconds", "how long its result is kept after its end (default 168h)"},
	{"on-partial", "on_partial", "what a chunk that is given up means: finish (the default), fail or wait"},
	{"replicate", "replication.policy", "compute results more than once: none (the default), adaptive or all"},
	{"wait", keyWait, "acknowledged when on this many disks: local (the holder's) or stable (a majority's, the default)"},
}

func (a *app) jobRun() *cobra.Command {
	var f jobFlags
	var zones []string
	var permit, early string
	cmd := &cobra.Command{
		Use:   "run --wasm FILE --iterations N | --file JOB",
		Short: "Submit a job",
		Long: "Uploads the module and its input, submits the job and prints its id. With\n" +
			"--follow it shows the progress until the end, prints the results, and exits 8\n" +
			"if the job did not complete. Ctrl-C detaches; the job goes on.\n" +
			"A job file is TOML with the fields of the API's job spec; flags are stronger.\n" +
			"--dry-run checks all and submits nothing.\n" +
			"--local runs it on this machine alone, on all processors, without a daemon: the same\n" +
			"chunks, checks and results, and nothing stays behind. Ctrl-C ends it.",
		Example: "  skein job run --wasm pi.wasm --iterations 1e9 --follow\n" +
			"  skein job run --wasm options.wasm --input book.json --iterations 1e8 --early-stop put=0.001\n" +
			"  skein job run --file job.toml --iterations 1e6 --dry-run -o toml",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := newJobText()
			if f.file != "" {
				var err error
				if t, err = readJobFile(f.file); err != nil {
					return err
				}
			}
			over := func(flag, key string, v any) { t.values[key], t.flags[key] = v, "--"+flag }
			for _, one := range textFlags {
				if x := cmd.Flags().Lookup(one.flag); x.Changed {
					over(one.flag, one.key, x.Value.String())
				}
			}
			if cmd.Flags().Changed("zone") {
				over("zone", "zones", zones)
			}
			if t.values["program"] != nil && t.values["executor"] == nil {
				t.values["executor"] = cluster.ExecutorExec
			}
			if err := f.overlay(permit, early, over); err != nil {
				return err
			}
			return a.runJob(cmd.Context(), f, t)
		},
	}
	x := cmd.Flags()
	x.StringVar(&f.file, "file", "", "job file, TOML")
	for _, one := range textFlags {
		x.String(one.flag, "", one.doc)
	}
	x.StringSliceVar(&zones, "zone", nil, "only in these zones")
	x.StringVar(&permit, "permit", "", "whose workers may run it: public (the default), owner, user:NAME,... or group:NAME,...")
	x.StringVar(&early, "early-stop", "", "complete when the metric's relative error is below: METRIC=ERROR or METRIC=ERROR,MIN_SAMPLES")
	x.StringArrayVar(&f.set, "set", nil, "any other key of a job file: KEY=VALUE")
	x.BoolVar(&f.dry, "dry-run", false, "check the job, show its spec and submit nothing")
	x.BoolVar(&f.local, "local", false, "run it here and now, without a cluster")
	x.BoolVarP(&f.follow, "follow", "f", false, "show the progress and wait for the end")
	x.StringVar(&f.metric, "metric", "", "metric in the progress line (default: the first)")
	return cmd
}

// overlay applies the flags that say more than one key.
func (f jobFlags) overlay(permit, early string, over func(flag, key string, v any)) error {
	if permit != "" {
		access, names, _ := strings.Cut(permit, ":")
		over("permit", "permission.access", access)
		var list []string
		if names != "" {
			list = strings.Split(names, ",")
		}
		switch {
		case access == string(cluster.AccessGroup):
			over("permit", "permission.groups", list)
		case access == string(cluster.AccessUser), names != "":
			over("permit", "permission.users", list)
		}
	}
	if early != "" {
		metric, rest, ok := strings.Cut(early, "=")
		rel, least, more := strings.Cut(rest, ",")
		v, err := strconv.ParseFloat(rel, 64)
		if !ok || err != nil {
			return usagef("--early-stop is %q, want METRIC=ERROR like pi=0.001", early)
		}
		over("early-stop", "early_stop.metric", metric)
		over("early-stop", "early_stop.rel_error", v)
		if more {
			over("early-stop", "early_stop.min_n", least)
		}
	}
	for _, one := range f.set {
		key, text, ok := strings.Cut(one, "=")
		if !ok {
			return usagef("--set is %q, want KEY=VALUE", one)
		}
		var v struct{ V any }
		if _, err := toml.Decode("V = "+text, &v); err != nil {
			v.V = text
		}
		over("set", key, v.V)
	}
	return nil
}

// check makes the spec and the names of the files to upload, before anything is
// sent.
func (t *jobText) check() (spec cluster.JobSpec, wasm, input string, wait api.Wait, err error) {
	waitText := ""
	for _, one := range []struct {
		key string
		to  *string
	}{{keyWasm, &wasm}, {keyInput, &input}, {keyWait, &waitText}} {
		if *one.to, err = t.text(one.key); err != nil {
			return spec, "", "", "", err
		}
	}
	switch wait = api.Wait(waitText); {
	case wait == "":
		wait = api.WaitStable
	case wait != api.WaitLocal && wait != api.WaitStable:
		return spec, "", "", "", t.fail(keyWait, "%q, want local or stable", wait)
	}
	if wasm == "" && t.values["artefact"] == nil && t.values["program"] == nil {
		return spec, "", "", "", usagef("--wasm is missing").hint("give the module to run: --wasm FILE, or a host's program: --program NAME")
	}
	if t.values["iterations"] == nil {
		return spec, "", "", "", usagef("--iterations is missing").hint("say how much there is to do: --iterations 1e6")
	}
	spec, err = t.spec()
	return spec, wasm, input, wait, err
}

func (a *app) runJob(ctx context.Context, f jobFlags, t *jobText) error {
	spec, wasm, input, wait, err := t.check()
	if err != nil {
		return err
	}
	if f.dry {
		return a.dryRun(spec, wasm, input)
	}
	if spec.Key == "" {
		spec.Key = "cli-" + rand.Text()
	}
	if f.local {
		return a.runLocal(ctx, spec, wasm, input, f.metric)
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if wasm != "" {
		if spec.Artefact, err = a.upload(ctx, c, "--wasm", wasm, cluster.MaxModuleBytes); err != nil {
			return err
		}
	}
	if input != "" {
		if spec.Config, err = a.upload(ctx, c, "--input", input, cluster.MaxConfigBytes); err != nil {
			return err
		}
	}
	resp, err := a.submit(ctx, c, api.SubmitRequest{Spec: spec, Wait: wait})
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

// dryRun shows what would be submitted.
func (a *app) dryRun(spec cluster.JobSpec, wasm, input string) error {
	for _, file := range []struct {
		flag, path string
		limit      int64
		to         *cluster.Hash
	}{{"--wasm", wasm, cluster.MaxModuleBytes, &spec.Artefact}, {"--input", input, cluster.MaxConfigBytes, &spec.Config}} {
		if file.path == "" {
			continue
		}
		f, err := openUpload(file.flag, file.path, file.limit)
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return usagef("%s: %s", file.flag, err)
		}
		*file.to = cluster.Hash(sum.Sum(nil))
	}
	switch a.output {
	case "json", "jsonl":
		return a.show(view{body: spec})
	}
	text, err := specTOML(spec)
	if err != nil {
		return err
	}
	a.note("nothing was submitted: %d iterations in %s", spec.Iterations, plural(spec.Chunks(), "chunk"))
	_, err = a.out.Write(text)
	return err
}

// openUpload opens a file that is to be uploaded.
func openUpload(flag, path string, limit int64) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("%s: %s", flag, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = usagef("%s: %s", flag, err)
	case !info.Mode().IsRegular():
		err = usagef("%s: %s is not a file", flag, path)
	case info.Size() == 0:
		err = usagef("%s: %s is empty", flag, path)
	case info.Size() > limit:
		err = usagef("%s: %s has %d bytes, at most %d are allowed", flag, path, info.Size(), limit)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// upload sends a file and returns its hash.
func (a *app) upload(ctx context.Context, c *api.Client, flag, path string, limit int64) (cluster.Hash, error) {
	f, err := openUpload(flag, path, limit)
	if err != nil {
		return cluster.Hash{}, err
	}
	defer f.Close()
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
		pause := 500 * time.Millisecond
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeOverloaded && p.RetryAfterSeconds != nil {
			pause = max(pause, time.Duration(*p.RetryAfterSeconds*float64(time.Second)))
		}
		timer := time.NewTimer(pause)
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
	return a.followTo(ctx, id, metric, func(j api.Job) error { return a.showJob(j, nil) })
}

// followTo watches a job to its end, and then shows it.
func (a *app) followTo(ctx context.Context, id, metric string, show func(api.Job) error) error {
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
	if err := show(last); err != nil {
		return err
	}
	return endOf(last)
}

// endOf is how a command ends that waited for a job: by nothing if it completed,
// with exit code 7 if its own deadline passed, else with 8.
func endOf(j api.Job) error {
	if j.State == cluster.JobCompleted {
		return nil
	}
	reason, code := "", exitGoal
	if j.Reason != "" {
		reason = ": " + j.Reason
	}
	if j.State == cluster.JobTimeout {
		code = exitTimeout
	}
	return failf(code, "job %s is %s%s", short(j.ID), j.State, reason).
		hint("the reasons of each failure: `skein job status %s`", short(j.ID))
}

func pathEscape(s string) string { return url.PathEscape(s) }
