package loadtest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/hook"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/slice"
)

// scenario is one that was read, with all that it needs.
type scenario struct {
	plan  *load.Plan
	rules []*rule.Rule
	tls   *tls.Config
	files map[string][]byte // modules, descriptors
}

// sources is what a scenario may take from beside it.
type sources struct {
	secrets string   // directory
	vars    []string // NAME=VALUE
}

// faultsOf names the file in what is wrong with it.
func faultsOf(path string, err error) error {
	faults, ok := errors.AsType[load.Faults](err)
	if !ok {
		return err
	}
	out := make(config.Errors, len(faults))
	for i, f := range faults {
		out[i] = &config.Error{File: path, Line: f.Line, Key: f.Key, Msg: f.Msg, Hint: f.Hint}
	}
	return out
}

// readScenario reads and compiles a file.
func readScenario(a *cli.App, path string, from sources) (*scenario, error) {
	text, err := readFile(path, load.MaxFile)
	if err != nil {
		return nil, err
	}
	s, err := load.Parse(string(text))
	if err != nil {
		return nil, faultsOf(path, err)
	}
	for _, one := range from.vars {
		name, value, ok := strings.Cut(one, "=")
		if !ok {
			return nil, cli.Usagef("--var is %q, want NAME=VALUE", one)
		}
		if _, known := s.Vars[name]; !known {
			return nil, cli.Usagef("--var: the scenario has no variable %q", name).WithHint("give it a default in vars of %s", path)
		}
		s.Vars[name] = value
	}
	return compile(a, s, path, from)
}

// compile reads what a scenario names.
func compile(a *cli.App, s *load.Scenario, path string, from sources) (*scenario, error) {
	beside := func(file string) string {
		if filepath.IsAbs(file) {
			return file
		}
		return filepath.Join(filepath.Dir(path), file)
	}
	in := load.Inputs{
		Rows: map[string]*load.Rows{},
		Env: func(name string) (string, bool) {
			v := a.Getenv(name)
			return v, v != ""
		},
		Secret: func(name string) (string, bool) { return slice.Secret(from.secrets, name) },
	}
	for _, d := range s.Data {
		text, err := readFile(beside(d.File), load.MaxRows)
		if err != nil {
			return nil, err
		}
		if in.Rows[d.Name], err = load.ParseRows(d.File, text); err != nil {
			return nil, cli.Usagef("data.%s: %s", d.Name, err)
		}
	}
	p, err := s.Compile(in)
	if err != nil {
		return nil, faultsOf(path, err)
	}
	rules, err := rule.Compile(p)
	if err != nil {
		return nil, faultsOf(path, err)
	}
	conf, err := slice.TLS(s.HTTP.TLS, func(name string) ([]byte, error) { return readFile(beside(name), 1<<20) })
	if err != nil {
		return nil, usage(path, err)
	}
	files := map[string][]byte{}
	for _, name := range s.Files() {
		if files[name], err = readFile(beside(name), hook.MaxModule); err != nil {
			return nil, err
		}
	}
	return &scenario{p, rules, conf, files}, nil
}

// readFile reads a file of at most so many bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.NoFile("%s", err)
	}
	if err != nil {
		return nil, cli.Usagef("%s", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, cli.Usagef("read %s: %s", path, err)
	case int64(len(b)) > most:
		return nil, cli.Usagef("%s has more than the %d bytes that are allowed", path, most)
	}
	return b, nil
}

// guardOf refuses the mesh of this host as well, if it is in one.
func (o Options) guardOf(a *cli.App) guard.Guard {
	path, asked := a.ConfigPath()
	cfg, err := config.Load(config.Options{Path: path, Optional: !asked, Env: a.Env})
	if err != nil {
		a.Note("warning: the configuration cannot be read, so it is not known which addresses are of the mesh: %s", firstLine(err))
		return guard.Guard{}
	}
	return guard.Guard{Never: o.Mesh(cfg.StateDir)}
}

func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// writeOut writes a file whole, or not at all.
func writeOut(path string, text []byte) error {
	tmp := path + ".part"
	if err := os.WriteFile(tmp, text, 0o644); err != nil { //nolint:gosec // a report is for everybody
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
