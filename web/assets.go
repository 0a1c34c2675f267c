package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed dist
var dist embed.FS

// contentTypes are those of the files that there are.
var contentTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// asset is one file of the page.
type asset struct {
	kind       string
	plain, zip []byte
	// for ever: another content has another name.
	immutable bool
}

// assets reads the files in dir by the paths at which they are served.
func assets(files fs.FS, dir string) (map[string]asset, error) {
	out := make(map[string]asset)
	err := fs.WalkDir(files, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		kind := contentTypes[path.Ext(name)]
		if kind == "" {
			return nil // such as the sum of the sources
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		var zip bytes.Buffer
		w, err := gzip.NewWriterLevel(&zip, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		at := strings.TrimPrefix(name, dir)
		out[at] = asset{kind: kind, plain: text, zip: zip.Bytes(), immutable: strings.HasPrefix(at, "/assets/")}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	if _, ok := out["/index.html"]; !ok {
		return nil, fmt.Errorf("read the page: no index.html")
	}
	return out, nil
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-store")
	if a.immutable {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.zip
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = (&patient{w: w, c: http.NewResponseController(w)}).Write(body) // who reads no more has gone
}
