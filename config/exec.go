package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// Exec is [exec]: programs of this host that jobs may run.
type Exec struct {
	// Programs are the only ones: by name, an absolute path and fixed
	// arguments.
	Programs     map[string][]string
	User         string // empty: the daemon's own
	Cgroup       string // delegated directory of cgroup v2; empty: none
	ScratchDir   string // empty: in the state directory
	ScratchBytes int64  // of one chunk
	Processes    int    // of one chunk, with Cgroup
	Grace        time.Duration
}

// Bounds of [exec.programs].
const (
	maxPrograms  = 128
	maxArguments = 64
	maxArgument  = 4096
)

const programTable = "a table of name = [path, arguments]"

func execKeys() []key {
	return []key{
		stringKey("exec.user", func(c *Fixed) *string { return &c.Exec.User }, groupName,
			"Programs run as this user, for which the daemon must be root. Empty: as the daemon."),
		stringKey("exec.cgroup", func(c *Fixed) *string { return &c.Exec.Cgroup }, optionalPath,
			"A delegated cgroup v2 directory without processes of its own: each chunk gets a group in",
			"it, with limits on memory, processes and processors. Empty: none."),
		stringKey("exec.scratch_dir", func(c *Fixed) *string { return &c.Exec.ScratchDir }, optionalPath,
			"Each running chunk gets an empty directory in this one. Empty: in the state directory."),
		intKey("exec.scratch_bytes", func(c *Fixed) *int64 { return &c.Exec.ScratchBytes }, 1<<16, 1<<44,
			"Bytes that a chunk may write there; beyond that the program is stopped."),
		intKey("exec.processes", func(c *Fixed) *int { return &c.Exec.Processes }, 1, 1<<20,
			"Processes that a chunk may have at the same time; needs exec.cgroup."),
		floatKey("exec.grace_seconds",
			func(c *Fixed) float64 { return c.Exec.Grace.Seconds() },
			func(c *Fixed, f float64) { c.Exec.Grace = time.Duration(f * float64(time.Second)) }, 0, 60,
			"Time between SIGTERM and SIGKILL, when a job is stopped or a chunk takes too long."),
		spec[Fixed]{
			name: "exec.programs", kind: programTable,
			doc: []string{
				"The only programs that jobs may run on this host, without a shell, in place of WASM:",
				"render = [\"/usr/bin/render\", \"--batch\"]",
			},
			parse: parsePrograms, set: setPrograms, show: showPrograms,
		}.key(),
	}
}

// parsePrograms reads "render=/usr/bin/render,render=--batch,other=...".
func parsePrograms(s string) (any, error) {
	table := map[string]any{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, arg, ok := strings.Cut(part, "=")
		if !ok {
			return nil, errType{"name=path,name=argument,...", strconv.Quote(part)}
		}
		list, _ := table[name].([]any)
		table[name] = append(list, any(arg))
	}
	return table, nil
}

func setPrograms(c *Fixed, v any) error {
	table, ok := v.(map[string]any)
	if !ok {
		return errType{programTable, typeName(v)}
	}
	if len(table) > maxPrograms {
		return fmt.Errorf("%d programs, at most %d are allowed", len(table), maxPrograms)
	}
	programs := make(map[string][]string, len(table))
	for _, name := range sortedKeys(table) {
		if _, err := job.ParseProgramName(name); err != nil {
			return err
		}
		argv, err := parseArgv(table[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		programs[name] = argv
	}
	c.Exec.Programs = programs
	return nil
}

func parseArgv(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errType{"a list of strings", typeName(v)}
	}
	if len(list) == 0 {
		return nil, errors.New("no path")
	}
	if len(list) > maxArguments {
		return nil, fmt.Errorf("%d arguments, at most %d are allowed", len(list), maxArguments)
	}
	var argv []string
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return nil, errType{"a list of strings", "a list with " + typeName(e)}
		}
		if len(s) > maxArgument || strings.ContainsRune(s, 0) {
			return nil, fmt.Errorf("an argument of %d bytes, want at most %d and no zero byte", len(s), maxArgument)
		}
		argv = append(argv, s)
	}
	return slices.Clip(argv), absolute(argv[0])
}

func showPrograms(c *Fixed) string {
	parts := make([]string, 0, len(c.Exec.Programs))
	for _, name := range sortedKeys(c.Exec.Programs) {
		quoted := make([]string, len(c.Exec.Programs[name]))
		for i, arg := range c.Exec.Programs[name] {
			quoted[i] = quote(arg)
		}
		parts = append(parts, name+" = ["+strings.Join(quoted, ", ")+"]")
	}
	if len(parts) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}
