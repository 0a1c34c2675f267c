package jobs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// keyFile names a job file in the job of a step; keys beside it are stronger.
const keyFile = "file"

// workflowText is a workflow as a file describes it.
type workflowText struct {
	path, key string
	text      string
	def       flow.Def
	jobs      [][2]stepFiles // by step: of its job, and of its provider
}

// stepFiles are what a job of a step has uploaded.
type stepFiles struct {
	wasm, input string
	files       map[string]string
}

// readWorkflow reads a workflow file. What it names is named from its directory.
func readWorkflow(path string) (*workflowText, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, cli.NoFile("%s", err)
	}
	if info.Size() > maxJobFile {
		return nil, cli.Usagef("%s has %d bytes, at most %d are allowed", path, info.Size(), maxJobFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.Usagef("%s", err)
	}
	t := &workflowText{path: path, text: string(text)}
	var tree map[string]any
	if _, err := toml.Decode(t.text, &tree); err != nil {
		if pe, ok := errors.AsType[toml.ParseError](err); ok {
			return nil, cli.Usagef("%s:%d: %s", path, pe.Position.Line, pe.Message).WithHint("the file must be TOML, https://toml.io")
		}
		return nil, cli.Usagef("%s: %s", path, err)
	}
	if v, ok := tree["key"]; ok {
		if t.key, ok = v.(string); !ok {
			return nil, cli.Usagef("%s: key: %v is not a text", path, v)
		}
		delete(tree, "key")
	}
	list, ok := tree["step"].([]map[string]any)
	if !ok {
		return nil, cli.Usagef("%s: there is no [[step]]", path).WithHint("see docs/workflows.md")
	}
	t.jobs = make([][2]stepFiles, len(list))
	for i, s := range list {
		for k, key := range []string{"job", "provider"} {
			if _, given := s[key]; !given && k > 0 {
				continue
			}
			spec, files, err := t.job(s, key)
			if err != nil {
				return nil, err
			}
			s[key], t.jobs[i][k] = spec, files
		}
	}
	b, err := json.Marshal(tree)
	if err != nil {
		return nil, cli.Usagef("%s: %s", path, err)
	}
	if t.def, err = flow.Decode(b); err != nil {
		return nil, cli.Usagef("%s: %s", path, err)
	}
	return t, nil
}

// job makes the spec of a job of a step, whose files are still to be uploaded.
func (t *workflowText) job(step map[string]any, key string) (job.Spec, stepFiles, error) {
	name, _ := step["name"].(string)
	fail := func(err error) (job.Spec, stepFiles, error) {
		return job.Spec{}, stepFiles{}, cli.Usagef("%s", t.located(fmt.Sprintf("step %s: %s: %s", name, key, err), name))
	}
	keys, ok := step[key].(map[string]any)
	if !ok {
		return fail(errors.New("it is missing, want a table with the keys of a job file"))
	}
	from := newJobText()
	dir := filepath.Dir(t.path)
	if file, given := keys[keyFile]; given {
		path, ok := file.(string)
		if !ok {
			return fail(fmt.Errorf("file: %v is not a text", file))
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		var err error
		if from, err = readJobFile(path); err != nil {
			return fail(err)
		}
	}
	var put func(prefix string, keys map[string]any)
	put = func(prefix string, keys map[string]any) {
		for k, v := range keys {
			if sub, ok := v.(map[string]any); ok && prefix+k != keyFiles {
				put(prefix+k+".", sub)
				continue
			}
			if path, ok := v.(string); ok && prefix == "" && (k == keyWasm || k == keyInput) && path != "" && !filepath.IsAbs(path) {
				v = filepath.Join(dir, path)
			}
			from.values[prefix+k] = v
		}
	}
	absFiles(keys[keyFiles], dir)
	put("", keys)
	delete(from.values, keyFile)
	delete(from.values, keyWait)
	delete(from.values, "key") // the workflow chooses it
	if from.values["program"] != nil && from.values["executor"] == nil {
		from.values["executor"] = job.ExecutorExec
	}
	if key == "provider" && from.values["iterations"] == nil {
		from.values["iterations"] = int64(1)
	}
	spec, wasm, input, _, err := from.check()
	if err != nil {
		return fail(err)
	}
	if wasm != "" {
		spec.Artefact = cluster.Hash{1} // comes with the upload
	}
	return spec, stepFiles{wasm, input, from.files}, nil
}

// located prefixes a text with the line of the step that it is about, the last of several
// with the same name.
func (t *workflowText) located(text, step string) string {
	if step != "" {
		all := regexp.MustCompile(`(?m)^\s*name\s*=\s*["']`+regexp.QuoteMeta(step)+`["']`).FindAllStringIndex(t.text, -1)
		if len(all) > 0 {
			at := all[len(all)-1]
			return fmt.Sprintf("%s:%d: %s", t.path, 1+strings.Count(t.text[:at[0]], "\n")+strings.Count(t.text[at[0]:at[1]], "\n"), text)
		}
	}
	return t.path + ": " + text
}

// refused says of a definition that the cluster refused where it is wrong.
func (t *workflowText) refused(err error) error {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok || p.Code != api.CodeInvalidJob {
		return err
	}
	for _, s := range t.def.Steps {
		named := []string{"step " + s.Name + ":", "wait for each other: " + s.Name + " ->", "two steps are called " + s.Name + "\n", fmt.Sprintf("step %q:", s.Name)}
		if slices.ContainsFunc(named, func(text string) bool { return strings.Contains(p.Detail+"\n", text) }) {
			return cli.Usagef("%s", t.located(p.Detail, s.Name)).WithHint("%s", p.Hint)
		}
	}
	return cli.Usagef("%s: %s", t.path, p.Detail).WithHint("%s", p.Hint)
}

// workflowFlags are the flags of workflow run.
type workflowFlags struct {
	key         string
	params      []string
	dry, follow bool
	forWorker   bool
}

func workflowRun(a *cli.App) *cobra.Command {
	var f workflowFlags
	cmd := &cobra.Command{
		Use: "run FILE", Short: "Submit a workflow", Args: cli.Exactly(1, "a workflow file"),
		Long: "Uploads what the jobs of its steps need, submits the workflow and prints the id of its\n" +
			"run. With --follow it shows how the steps get on until the end, and exits 8 if the run\n" +
			"did not complete. Ctrl-C detaches; the run goes on. --dry-run checks the file and what\n" +
			"is in it, and submits nothing. See docs/workflows.md for the file.",
		Example: "  skein workflow run risk.toml --param day=2026-11-24 --follow",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(a, cmd.Context(), args[0])
		},
	}
	x := cmd.Flags()
	x.StringVar(&f.key, "key", "", "idempotency key: the same key again is the same run (default: that of the file, or a new one)")
	x.StringArrayVar(&f.params, "param", nil, "the value of a parameter: NAME=VALUE")
	x.BoolVar(&f.dry, "dry-run", false, "check the workflow and submit nothing")
	x.BoolVar(&f.forWorker, "wait-for-worker", false, "submit it even if no host is in the zones of its steps")
	x.BoolVarP(&f.follow, "follow", "f", false, "show how the steps get on and wait for the end")
	return cmd
}

// paramValues reads the parameters that were given, each as its type wants it.
func paramValues(params []string, def flow.Def) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage)
	for _, one := range params {
		name, text, ok := strings.Cut(one, "=")
		if !ok {
			return nil, cli.Usagef("--param is %q, want NAME=VALUE", one)
		}
		p, known := def.Params[name]
		if !known {
			e := cli.Usagef("--param: the workflow has no param %q", name)
			if near := cli.Nearest(name, slices.Sorted(maps.Keys(def.Params))); near != "" {
				e = e.WithHint("did you mean %s?", near)
			}
			return nil, e
		}
		b := []byte(text)
		if p.Type == flow.TypeText || !json.Valid(b) {
			b, _ = json.Marshal(text) // a text always can
		}
		out[name] = b
	}
	return out, nil
}

func (f workflowFlags) run(a *cli.App, ctx context.Context, path string) error {
	t, err := readWorkflow(path)
	if err != nil {
		return err
	}
	req := api.WorkflowRequest{Key: f.key, Definition: t.def, CheckOnly: f.dry, WaitForWorker: f.forWorker}
	if req.Params, err = paramValues(f.params, t.def); err != nil {
		return err
	}
	if req.Key == "" {
		req.Key = t.key
	}
	if req.Key == "" {
		req.Key = "cli-" + rand.Text()
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := t.upload(a, ctx, c); err != nil {
		return err
	}
	req.Definition = t.def
	return submitRun(a, ctx, c, req, f.follow, t.refused)
}

// submitRun submits a run and says so, or follows it.
func submitRun(a *cli.App, ctx context.Context, c *api.Client, req api.WorkflowRequest, follow bool, refused func(error) error) error {
	w := &waiting{a: a}
	within, cancel := context.WithTimeout(ctx, patience(a)+max(a.Timeout, 35*time.Second)) // a submit may wait for a majority
	defer cancel()
	out, err := c.SubmitWorkflow(w.patiently(within), req)
	switch {
	case err != nil && ctx.Err() != nil:
		return cli.Failf(cli.ExitInterrupted, "interrupted while it was being submitted: the run may be there").
			WithHint("the same command with `--key %s` shows it, or submits it if it is not", req.Key)
	case err != nil:
		return refused(err)
	case req.CheckOnly:
		a.Note("nothing was submitted: the workflow has %s and makes sense", present.Plural(len(req.Definition.Steps), "step"))
		return nil
	}
	what := "submitted"
	if !out.Created {
		what = "submitted before, the same"
	}
	a.Note("run %s %s: %s", present.ShortRun(out.Run), what, present.Plural(len(req.Definition.Steps), "step"))
	if follow {
		return followRun(a, ctx, string(out.Run))
	}
	if a.Output == "json" || a.Output == "jsonl" {
		return a.Show(cli.View{Body: out})
	}
	fmt.Fprintln(a.Out, out.Run)
	return nil
}

// upload puts what the jobs of the steps need where the cluster finds it.
func (t *workflowText) upload(a *cli.App, ctx context.Context, c *api.Client) (err error) {
	uploads := make(map[string]cluster.Hash)
	for at := range 2 * len(t.jobs) {
		files, spec := t.jobs[at/2][at%2], &t.def.Steps[at/2].Job
		if at%2 == 1 {
			spec = t.def.Steps[at/2].Provider
		}
		if spec == nil {
			continue
		}
		for _, file := range []struct {
			key, path string
			limit     int64
			to        *cluster.Hash
		}{{keyWasm, files.wasm, job.MaxModuleBytes, &spec.Artefact}, {keyInput, files.input, job.MaxConfigBytes, &spec.Config}} {
			if file.path == "" {
				continue
			}
			h, known := uploads[file.path]
			if !known {
				if h, err = upload(a, ctx, c, file.key, file.path, file.limit); err != nil {
					return err
				}
				uploads[file.path] = h
			}
			*file.to = h
		}
		if err = uploadFiles(a, ctx, c, files.files, spec); err != nil {
			return err
		}
	}
	return nil
}
