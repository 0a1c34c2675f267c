package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	check := flag.Bool("check", false, "write nothing, fail if what is committed is not what the sources make")
	flag.Parse()
	for _, r := range rooms {
		if err := r.run(*check); err != nil {
			fmt.Fprintln(os.Stderr, "web/build:", err)
			os.Exit(1)
		}
	}
}

// room is a folder of sources and what is made of them.
type room struct {
	sources, dist string // below web
	build         func(sources string) (map[string][]byte, error)
}

var rooms = []room{
	{"ui", "dist", build},
	{"worker", "worker/dist", work},
}

func (r room) run(check bool) error {
	from, dist := filepath.Join("..", r.sources), filepath.Join("..", filepath.FromSlash(r.dist))
	made, err := r.build(from)
	if err != nil {
		return err
	}
	if check {
		return r.compare(made)
	}
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	for name, text := range made {
		path := filepath.Join(dist, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// build makes the files of dist by their names.
func build(ui string) (map[string][]byte, error) {
	made := make(map[string][]byte)
	page, err := os.ReadFile(filepath.Join(ui, "src", "index.html"))
	if err != nil {
		return nil, err
	}
	fill := func(mark, with string) error {
		if !bytes.Contains(page, []byte(mark)) {
			return fmt.Errorf("index.html does not name %s", mark)
		}
		page = bytes.ReplaceAll(page, []byte(mark), []byte(with))
		return nil
	}
	scripts, app, first, err := split(filepath.Join(ui, "src", "main.tsx"))
	if err != nil {
		return nil, err
	}
	for name, text := range scripts {
		made["assets/"+name] = text
	}
	if err := fill("APP.js", "/assets/"+app); err != nil {
		return nil, err
	}
	var links strings.Builder
	for _, name := range first {
		fmt.Fprintf(&links, "<link rel=\"modulepreload\" href=\"/assets/%s\">\n", name)
	}
	if err := fill("FIRST\n", links.String()); err != nil {
		return nil, err
	}
	for mark, source := range map[string]string{"APP.css": "style.css", "ICON.svg": "icon.svg"} {
		text, err := os.ReadFile(filepath.Join(ui, "src", source))
		if err == nil && path.Ext(source) == ".css" {
			text, err = style(filepath.Join(ui, "src", source))
		}
		if err != nil {
			return nil, err
		}
		base, ext, _ := strings.Cut(strings.ToLower(mark), ".")
		sum := sha256.Sum256(text)
		name := fmt.Sprintf("assets/%s-%s.%s", base, hex.EncodeToString(sum[:6]), ext)
		made[name] = text
		if err := fill(mark, "/"+name); err != nil {
			return nil, err
		}
	}
	made["index.html"] = page
	made["sources.sum"], err = sources(ui)
	return made, err
}

// work makes what computes chunks in a browser: the script that runs guests in a Web
// Worker, those that pages import, which know the first by its name, and the page on
// which somebody lets a browser work.
func work(from string) (map[string][]byte, error) {
	made := make(map[string][]byte)
	inside, err := modules(made, nil, filepath.Join(from, "src", "inside.ts"))
	if err != nil {
		return nil, err
	}
	define := map[string]string{"INSIDE": strconv.Quote("./" + inside["inside"])}
	names, err := modules(made, define, filepath.Join(from, "src", "work.ts"), filepath.Join(from, "src", "portal.ts"))
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(from, "src", "index.html"))
	if err != nil {
		return nil, err
	}
	looks, err := style(filepath.Join(from, "src", "portal.css"))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(looks)
	css := fmt.Sprintf("portal-%x.css", sum[:6])
	made[css] = looks
	made["index.html"] = []byte(strings.NewReplacer("PORTAL.css", css, "PORTAL.js", names["portal"]).Replace(string(page)))
	made["sources.sum"], err = sources(from)
	return made, err
}

// modules makes a script of each source, and of what they share, named after their
// contents. Names are those of the sources' by theirs.
func modules(made map[string][]byte, define map[string]string, from ...string) (names map[string]string, err error) {
	o := options("")
	o.EntryPoints = from
	o.Format, o.Splitting, o.EntryNames, o.ChunkNames, o.Define = api.FormatESModule, true, "[name]-[hash]", "part-[hash]", define
	r := api.Build(o)
	if err := wrong(from[0], r); err != nil {
		return nil, err
	}
	names = make(map[string]string)
	for _, f := range r.OutputFiles {
		name := filepath.Base(f.Path)
		made[name] = f.Contents
		of, _, _ := strings.Cut(name, "-")
		names[of] = name
	}
	return names, nil
}

// options are those of every build.
func options(source string) api.BuildOptions {
	return api.BuildOptions{
		EntryPoints: []string{source}, Bundle: true, Outdir: "out",
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		Target: api.ES2022, Charset: api.CharsetASCII, LegalComments: api.LegalCommentsEndOfFile,
	}
}

// split makes scripts of a source and what that imports, by their names, which are
// others for other contents. App is the one that the page names; first are those
// without which that cannot run. The others are loaded when they are wanted.
func split(source string) (scripts map[string][]byte, app string, first []string, err error) {
	o := options(source)
	o.Format, o.Splitting, o.Metafile = api.FormatESModule, true, true
	o.EntryNames, o.ChunkNames = "app-[hash]", "[name]-[hash]"
	// Shorter than what calls of the automatic runtime come to.
	o.TsconfigRaw = `{"compilerOptions": {"jsx": "react", "jsxFactory": "jsxElement", "jsxFragmentFactory": "jsxFragment"}}`
	o.Inject = []string{filepath.Join(filepath.Dir(source), "jsx.ts")}
	o.Plugins = []api.Plugin{lines}
	r := api.Build(o)
	if err := wrong(source, r); err != nil {
		return nil, "", nil, err
	}
	var meta struct {
		Outputs map[string]struct {
			EntryPoint string
			Imports    []struct{ Path, Kind string }
		}
	}
	if err := json.Unmarshal([]byte(r.Metafile), &meta); err != nil {
		return nil, "", nil, fmt.Errorf("what %s was made into: %w", source, err)
	}
	scripts = make(map[string][]byte)
	for _, f := range r.OutputFiles {
		scripts[filepath.Base(f.Path)] = f.Contents
	}
	var walk func(out string)
	walk = func(out string) {
		for _, i := range meta.Outputs[out].Imports {
			if name := path.Base(i.Path); i.Kind == "import-statement" && !slices.Contains(first, name) {
				first = append(first, name)
				walk(i.Path)
			}
		}
	}
	for out, m := range meta.Outputs {
		if m.EntryPoint != "" && strings.HasPrefix(path.Base(out), "app-") {
			app = path.Base(out)
			walk(out)
		}
	}
	slices.Sort(first)
	if app == "" || len(scripts) != len(meta.Outputs) {
		return nil, "", nil, fmt.Errorf("%s makes %d files, and none that begins", source, len(scripts))
	}
	return scripts, app, first, nil
}

// style makes one file of a style.
func style(source string) ([]byte, error) {
	r := api.Build(options(source))
	if err := wrong(source, r); err != nil {
		return nil, err
	}
	return r.OutputFiles[0].Contents, nil
}

// wrong is what a build complains of.
func wrong(source string, r api.BuildResult) error {
	var list []error
	for _, m := range append(r.Errors, r.Warnings...) {
		at := ""
		if m.Location != nil {
			at = fmt.Sprintf("%s:%d: ", m.Location.File, m.Location.Line)
		}
		list = append(list, errors.New(at+m.Text))
	}
	if len(r.OutputFiles) == 0 && list == nil {
		list = append(list, errors.New("it makes no file"))
	}
	if list == nil {
		return nil
	}
	return fmt.Errorf("bundle %s (after `npm ci --ignore-scripts` in web/ui): %w", source, errors.Join(list...))
}

// sources is a line for each source with its hash, as sha256sum writes them: a test
// of package web, which needs no node, sees by it that dist was made of them.
func sources(ui string) ([]byte, error) {
	var out bytes.Buffer
	err := filepath.WalkDir(ui, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "dist") {
			return fs.SkipDir
		}
		if d.IsDir() || d.Name() == ".gitignore" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(ui, path)
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(rel))
		return err
	})
	return out.Bytes(), err
}

// compare says in what the files that are there differ from what was made.
func (r room) compare(made map[string][]byte) error {
	dist := filepath.Join("..", filepath.FromSlash(r.dist))
	seen := 0
	err := filepath.WalkDir(dist, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dist, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if want, ok := made[filepath.ToSlash(rel)]; !ok || !bytes.Equal(want, text) {
			return fmt.Errorf("web/%s/%s is not what web/%s makes: run `make web` and commit web/%s", r.dist, filepath.ToSlash(rel), r.sources, r.dist)
		}
		seen++
		return nil
	})
	if err == nil && seen != len(made) {
		err = fmt.Errorf("web/%s has %d files, web/%s makes %d: run `make web` and commit web/%s", r.dist, seen, r.sources, len(made), r.dist)
	}
	return err
}
