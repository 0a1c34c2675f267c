package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	check := flag.Bool("check", false, "write nothing, fail if web/dist is not what the sources make")
	flag.Parse()
	if err := run(filepath.Join("..", "ui"), filepath.Join("..", "dist"), *check); err != nil {
		fmt.Fprintln(os.Stderr, "web/build:", err)
		os.Exit(1)
	}
}

func run(ui, dist string, check bool) error {
	made, err := build(ui)
	if err != nil {
		return err
	}
	if check {
		return compare(made, dist)
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
	for mark, source := range map[string]string{"APP.js": "main.tsx", "APP.css": "style.css", "ICON.svg": "icon.svg"} {
		text, err := bundle(filepath.Join(ui, "src", source))
		if err != nil {
			return nil, err
		}
		base, ext, _ := strings.Cut(strings.ToLower(mark), ".")
		sum := sha256.Sum256(text)
		name := fmt.Sprintf("assets/%s-%s.%s", base, hex.EncodeToString(sum[:6]), ext)
		made[name] = text
		if !bytes.Contains(page, []byte(mark)) {
			return nil, fmt.Errorf("index.html does not name %s", mark)
		}
		page = bytes.ReplaceAll(page, []byte(mark), []byte("/"+name))
	}
	made["index.html"] = page
	made["sources.sum"], err = sources(ui)
	return made, err
}

// bundle makes one file of a source and what that imports.
func bundle(source string) ([]byte, error) {
	if filepath.Ext(source) == ".svg" {
		return os.ReadFile(source)
	}
	r := api.Build(api.BuildOptions{
		EntryPoints: []string{source}, Bundle: true, Outdir: "out",
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		Target: api.ES2022, Format: api.FormatIIFE, Charset: api.CharsetASCII,
		JSX: api.JSXAutomatic, JSXImportSource: "preact", LegalComments: api.LegalCommentsEndOfFile,
	})
	var wrong []error
	for _, m := range append(r.Errors, r.Warnings...) {
		at := ""
		if m.Location != nil {
			at = fmt.Sprintf("%s:%d: ", m.Location.File, m.Location.Line)
		}
		wrong = append(wrong, errors.New(at+m.Text))
	}
	if len(r.OutputFiles) != 1 && wrong == nil {
		wrong = append(wrong, fmt.Errorf("%s makes %d files", source, len(r.OutputFiles)))
	}
	if wrong != nil {
		return nil, fmt.Errorf("bundle %s (after `npm ci --ignore-scripts` in web/ui): %w", source, errors.Join(wrong...))
	}
	return r.OutputFiles[0].Contents, nil
}

// sources is a line for each source with its hash, as sha256sum writes them: a test
// of package web, which needs no node, sees by it that dist was made of them.
func sources(ui string) ([]byte, error) {
	var out bytes.Buffer
	err := filepath.WalkDir(ui, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "node_modules" {
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

// compare says in what dist differs from what was made.
func compare(made map[string][]byte, dist string) error {
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
			return fmt.Errorf("web/dist/%s is not what web/ui makes: run `make web` and commit web/dist", filepath.ToSlash(rel))
		}
		seen++
		return nil
	})
	if err == nil && seen != len(made) {
		err = fmt.Errorf("web/dist has %d files, web/ui makes %d: run `make web` and commit web/dist", seen, len(made))
	}
	return err
}
