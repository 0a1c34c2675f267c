package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// submitPatience is how long a submit is repeated while no holder answers, unless
// --timeout says for how long: a failover takes less.
const submitPatience = time.Minute

func patience(a *cli.App) time.Duration {
	if a.TimeoutSet {
		return a.Timeout
	}
	return submitPatience
}

// uploadTime bounds one upload.
const uploadTime = 10 * time.Minute

// jobFlags are the flags of job run.
type jobFlags struct {
	file, metric string
	to           string
	set          []string
	follow, dry  bool
	local        bool
	forWorker    bool
	zones        zoneFlags
}

// textFlags are the flags of job run that stand for keys of a job file.
var textFlags = [...]struct{ flag, key, doc string }{
	{"wasm", keyWasm, "WASI command module to run"},
	{"program", "program", "program to run instead of a module, by the name under which hosts allow it"},
	{"input", keyInput, "file that each chunk gets on standard input, the job's config"},
	{"iterations", "iterations", "iterations of the whole job, like 1000000 or 1e6"},
	{"chunk", "chunk", "iterations of one chunk (default: by how fast the work goes, see docs/jobs.md)"},
	{"name", "name", "name to show"},
	{"key", "key", "idempotency key: the same key again is the same job (default: a new one)"},
	{"attempts", "attempts", fmt.Sprintf("how often a chunk may be tried (default %d)", job.DefaultAttempts)},
	{"chunk-timeout", "timeout_seconds", fmt.Sprintf("limit of one attempt (default %s)", job.DefaultTimeout)},
	{"memory", "memory_bytes", "limit of a chunk's memory, like 256M (the default)"},
	{"seed", "seed", "seed of the whole job"},
	{"priority", "priority", "among the owner's jobs, the lower goes first (default 100)"},
	{"deadline", "deadline_seconds", "time after which an unfinished job ends as timeout, like 2h"},
	{"keep", "keep_seconds", "how long its result is kept after its end (default 168h)"},
	{"on-partial", "on_partial", "what to do about a chunk that is given up: finish (the default), fail or wait"},
	{"replicate", "replication.policy", "compute results more than once: none (the default), adaptive or all"},
	{"wait", keyWait, "acknowledge once it is on these disks: local (the holder's) or stable (a majority's, the default)"},
}

func jobRun(a *cli.App, d Options) *cobra.Command {
	var f jobFlags
	var zones, after, outputs []string
	var named map[string]string
	var permit, early string
	cmd := &cobra.Command{
		Use:   "run --wasm FILE --iterations N | --file JOB",
		Short: "Submit a job",
		Long: "Uploads the module and its input, submits the job and prints its id. With\n" +
			"--follow it shows the progress until the end, prints the results, and exits 8\n" +
			"if the job did not complete. Ctrl-C detaches; the job continues.\n" +
			"While nobody holds the lease it tries again for a minute, or as long as --timeout says.\n" +
			"A job file is TOML with the fields of the API's job spec; flags override it.\n" +
			"--dry-run checks all but the module, and submits nothing.\n" +
			"--local runs it on this machine alone, on all processors, without a daemon: the same\n" +
			"checks, with --chunk the same results to the last bit, and nothing is left behind but\n" +
			"the files of its chunks, in --to DIR. Ctrl-C ends it.",
		Example: "  skein job run --wasm pi.wasm --iterations 1e9 --follow\n" +
			"  skein job run --wasm options.wasm --input book.json --iterations 1e8 \\\n" +
			"    --early-stop put=0.001\n" +
			"  skein job run --file job.toml --iterations 1e6 --dry-run -o toml",
		Args: cli.Exactly(0, ""),
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
			if cmd.Flags().Changed("outputs") {
				over("outputs", "outputs", outputs)
			}
			if cmd.Flags().Changed("files") {
				files := map[string]any{}
				for name, path := range named {
					files[name] = path
				}
				over("files", keyFiles, files)
			}
			if cmd.Flags().Changed("after") {
				if err := wholeIDs(a, cmd.Context(), after); err != nil {
					return err
				}
				over("after", "after", after)
			}
			if t.values["program"] != nil && t.values["executor"] == nil {
				t.values["executor"] = job.ExecutorExec
			}
			if err := f.overlay(permit, early, over); err != nil {
				return err
			}
			return runJob(a, cmd.Context(), d, f, t)
		},
	}
	x := cmd.Flags()
	x.StringVar(&f.file, "file", "", "job file, TOML")
	for _, one := range textFlags {
		x.String(one.flag, "", one.doc)
	}
	x.StringSliceVar(&zones, "zone", nil, "only in these zones")
	f.zones.flags(x)
	x.StringToStringVar(&named, "files", nil, "files that each chunk finds, by name: NAME=PATH, or NAME=HASH of an output or upload")
	x.StringSliceVar(&outputs, "outputs", nil, "names of the files that each chunk leaves")
	x.StringSliceVar(&after, "after", nil, "begin when these jobs have completed: ID, or ID:done (ended), ID:failed")
	x.StringVar(&permit, "permit", "", "whose workers may run it: public (the default), owner, user:NAME,... or group:NAME,...")
	x.StringVar(&early, "early-stop", "", "complete once the metric's relative error is lower: METRIC=ERROR or METRIC=ERROR,MIN_SAMPLES")
	x.StringArrayVar(&f.set, "set", nil, "any other key of a job file: KEY=VALUE")
	x.BoolVar(&f.dry, "dry-run", false, "check the job, show its spec and submit nothing")
	x.BoolVar(&f.local, "local", false, "run it here and now, without a cluster")
	x.StringVar(&f.to, "to", "", "with --local: write the files that chunks leave below this directory")
	x.BoolVar(&f.forWorker, "wait-for-worker", false, waitForWorker)
	x.BoolVarP(&f.follow, "follow", "f", false, "show the progress and wait for the end")
	x.StringVar(&f.metric, "metric", "", "metric in the progress line (default: the first)")
	return cmd
}

// wholeIDs makes whole ids of jobs of what names them, which may be their beginnings.
func wholeIDs(a *cli.App, ctx context.Context, after []string) error {
	for i, text := range after {
		id, how, said := strings.Cut(text, ":")
		if _, err := job.ParseID(id); err == nil {
			continue
		}
		err := a.WithClient(ctx, func(ctx context.Context, c *api.Client) error {
			j, err := c.Job(ctx, id)
			after[i] = string(j.ID)
			return err
		})
		if err != nil {
			return err
		}
		if said {
			after[i] += ":" + how
		}
	}
	return nil
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
		case access == string(job.AccessGroup):
			over("permit", "permission.groups", list)
		case access == string(job.AccessUser), names != "":
			for i, name := range list {
				if name != "" && !strings.Contains(name, ":") {
					list[i] = access + ":" + name // user:ann,user:bob and user:ann,bob are the same
				}
			}
			over("permit", "permission.users", list)
		}
	}
	if early != "" {
		metric, rest, ok := strings.Cut(early, "=")
		rel, least, more := strings.Cut(rest, ",")
		v, err := strconv.ParseFloat(rel, 64)
		if !ok || err != nil {
			return cli.Usagef("--early-stop is %q, want METRIC=ERROR like pi=0.001", early)
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
			return cli.Usagef("--set is %q, want KEY=VALUE", one)
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
func (t *jobText) check() (spec job.Spec, wasm, input string, wait api.Wait, err error) {
	if err := t.known(); err != nil { // else what it stands for is said to be missing
		return spec, "", "", "", err
	}
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
		return spec, "", "", "", cli.Usagef("--wasm is missing").WithHint("give the module to run: --wasm FILE, or a host's program: --program NAME")
	}
	if t.values["iterations"] == nil {
		return spec, "", "", "", cli.Usagef("--iterations is missing").WithHint("say how much there is to do: --iterations 1e6")
	}
	t.takeFiles()
	spec, err = t.spec()
	return spec, wasm, input, wait, err
}

func runJob(a *cli.App, ctx context.Context, d Options, f jobFlags, t *jobText) error {
	spec, wasm, input, wait, err := t.check()
	if err = cmp.Or(err, f.zones.check(f)); err != nil {
		return err
	}
	if f.dry {
		return dryRun(a, spec, wasm, input, t.files)
	}
	if spec.Key == "" {
		spec.Key = "cli-" + rand.Text()
	}
	if f.local {
		return runLocal(a, ctx, d, f, localFiles{spec: spec, wasm: wasm, input: input, files: t.files})
	}
	if f.to != "" {
		return cli.Usagef("--to goes with --local").WithHint("`skein job outputs ID --to DIR` reads what a job of the cluster left")
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	if wasm != "" {
		if spec.Artefact, err = upload(a, ctx, c, "--wasm", wasm, job.MaxModuleBytes); err != nil {
			return notSubmitted(ctx, err)
		}
	}
	if input != "" {
		if spec.Config, err = upload(a, ctx, c, "--input", input, job.MaxConfigBytes); err != nil {
			return notSubmitted(ctx, err)
		}
	}
	if err := uploadFiles(a, ctx, c, t.files, &spec); err != nil {
		return notSubmitted(ctx, err)
	}
	if ctx.Err() != nil {
		return notSubmitted(ctx, ctx.Err())
	}
	req := api.SubmitRequest{Spec: spec, Wait: wait, WaitForWorker: f.forWorker}
	f.zones.ask(&req)
	resp, err := submit(a, ctx, c, req)
	switch {
	case err != nil && ctx.Err() != nil:
		return cli.Failf(cli.ExitInterrupted, "interrupted while it was being submitted: the job may be there").
			WithHint("the same command with `--key %s` shows it, or submits it if it is not", spec.Key)
	case err != nil:
		return err
	}
	what := "submitted"
	if !resp.Created {
		what = "submitted before, the same"
	}
	if resp.Run != "" {
		return f.zones.submitted(a, ctx, resp, what, f.follow)
	}
	a.Note("job %s %s: %d iterations in %s, on the disks of %s", present.Short(resp.Job), what, resp.Spec.Iterations,
		present.Plural(resp.Spec.Chunks(), "chunk"), present.Plural(resp.StableVoters, "voter"))
	if f.follow {
		return followJob(a, ctx, string(resp.Job), resp.Cursor, f.metric)
	}
	switch a.Output {
	case "json", "jsonl":
		return a.Show(cli.View{Body: resp})
	}
	fmt.Fprintln(a.Out, resp.Job)
	return nil
}

// notSubmitted is how a run ends that was given up, or failed, before its job was sent.
func notSubmitted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return cli.Failf(cli.ExitInterrupted, "interrupted: no job was submitted")
}

// dryRun shows what would be submitted.
func dryRun(a *cli.App, spec job.Spec, wasm, input string, files map[string]string) (err error) {
	for _, file := range []struct {
		flag, path string
		limit      int64
		to         *cluster.Hash
	}{{"--wasm", wasm, job.MaxModuleBytes, &spec.Artefact}, {"--input", input, job.MaxConfigBytes, &spec.Config}} {
		if file.path == "" {
			continue
		}
		if *file.to, err = hashOf(file.flag, file.path, file.limit); err != nil {
			return err
		}
	}
	if err := eachFile(files, &spec, hashOf); err != nil {
		return err
	}
	chunks := present.Plural(spec.Chunks(), "chunk")
	if spec.ChunkAuto {
		chunks = "chunks of the size that the holder chooses"
		spec.Chunk = 0
	}
	switch a.Output {
	case "json", "jsonl":
		return a.Show(cli.View{Body: spec})
	}
	text, err := specTOML(spec)
	if err != nil {
		return err
	}
	a.Note("nothing was submitted: %d iterations in %s", spec.Iterations, chunks)
	_, err = a.Out.Write(text)
	return err
}

// hashOf is the hash of a file that would be uploaded.
func hashOf(flag, path string, limit int64) (cluster.Hash, error) {
	f, err := openUpload(flag, path, limit)
	if err != nil {
		return cluster.Hash{}, err
	}
	defer f.Close()
	sum := cluster.NewDigest(f)
	if _, err := io.Copy(io.Discard, sum); err != nil {
		return cluster.Hash{}, cli.Usagef("%s: %s", flag, err)
	}
	return sum.Sum(), nil
}

// openUpload opens a file that is to be uploaded.
func openUpload(flag, path string, limit int64) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.NoFile("%s: %s", flag, err)
	}
	if err != nil {
		return nil, cli.Usagef("%s: %s", flag, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = cli.Usagef("%s: %s", flag, err)
	case !info.Mode().IsRegular():
		err = cli.Usagef("%s: %s is not a file", flag, path)
	case info.Size() == 0:
		err = cli.Usagef("%s: %s is empty", flag, path)
	case info.Size() > limit:
		err = cli.Usagef("%s: %s has %d bytes, at most %d are allowed", flag, path, info.Size(), limit)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// upload sends a file and returns its hash.
func upload(a *cli.App, ctx context.Context, c *api.Client, flag, path string, limit int64) (cluster.Hash, error) {
	f, err := openUpload(flag, path, limit)
	if err != nil {
		return cluster.Hash{}, err
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout((&waiting{a: a}).patiently(ctx), uploadTime)
	defer cancel()
	art, err := c.PutArtefact(ctx, f)
	if err != nil {
		return cluster.Hash{}, fmt.Errorf("upload %s: %w", path, err)
	}
	return art.Hash, nil
}

func submit(a *cli.App, ctx context.Context, c *api.Client, req api.SubmitRequest) (api.SubmitResponse, error) {
	w := &waiting{a: a}
	ctx, cancel := context.WithTimeout(ctx, patience(a)+max(a.Timeout, 35*time.Second)) // a submit may wait for a majority
	defer cancel()
	defer w.explain(ctx, c, req.Wait)()
	return c.Submit(w.patiently(ctx), req)
}

// followJob watches a job to its end and shows what came of it. A host answers when it
// is at the position after, which is that of its submission; empty: it was submitted by
// another command.
func followJob(a *cli.App, ctx context.Context, id, after, metric string) error {
	return followTo(a, ctx, id, after, metric, func(j api.Job) error { return showJob(a, j, nil) })
}

// followTo watches a job to its end, and then shows it.
func followTo(a *cli.App, ctx context.Context, id, after, metric string, show func(api.Job) error) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	bar := newProgress(a, metric)
	seen := after != "" // hosts that took the job are there, whoever is not just now
	last, err := c.FollowJob(ctx, id, api.FollowOptions{Min: after, Retry: func(cause error) error {
		if _, away := errors.AsType[*api.UnreachableError](cause); away && !seen {
			return cause
		}
		bar.lost(cause, time.Now())
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
		a.Note("detached, the job goes on; see it again with `skein job status --follow %s`", id)
		a.Code = cli.ExitInterrupted
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
	if j.State == job.Completed {
		return nil
	}
	return missed("job "+present.Short(j.ID), string(j.State), j.Reason, j.State == job.TimedOut).
		WithHint("the reasons of each failure: `skein job status %s`", present.Short(j.ID))
}

// missed says that what was waited for did not come to what it was to.
func missed(what, state, reason string, late bool) *cli.Error {
	code := cli.ExitGoal
	if late {
		code = cli.ExitTimeout
	}
	if reason != "" {
		reason = ": " + reason
	}
	return cli.Failf(code, "%s is %s%s", what, state, reason)
}

func pathEscape(s string) string { return url.PathEscape(s) }
