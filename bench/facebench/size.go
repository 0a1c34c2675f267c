package facebench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/web"
)

var (
	named  = regexp.MustCompile(`"(/assets/[^"]+\.(?:js|css))"`)
	loaded = regexp.MustCompile(`"\./([^"]+\.js)"`)
)

// WebSize asks the page for its scripts and styles as a browser does, gzipped: those that
// it begins with, and all that these load when something is shown.
func WebSize(_ context.Context, s *suite.Suite) error {
	page, err := web.New(web.Options{API: http.NewFileTransport(http.Dir("/nonexistent")), Names: []string{"bench"}})
	if err != nil {
		return err
	}
	get := func(path, encoding string) (string, error) {
		r := httptest.NewRequest(http.MethodGet, "http://bench"+path, nil)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != encoding && encoding != "" {
			return "", fmt.Errorf("%s: %d %s", path, w.Code, w.Header())
		}
		return w.Body.String(), nil
	}
	index, err := get("/", "")
	if err != nil {
		return err
	}
	sizes := map[string]int{}
	var look func(at string) error
	look = func(at string) error {
		if _, seen := sizes[at]; seen {
			return nil
		}
		zip, err := get(at, "gzip")
		if err != nil {
			return err
		}
		sizes[at] = len(zip)
		text, err := get(at, "")
		if err != nil || path.Ext(at) != ".js" {
			return err
		}
		for _, m := range loaded.FindAllStringSubmatch(text, -1) {
			if err := look("/assets/" + m[1]); err != nil {
				return err
			}
		}
		return nil
	}
	first, all := 0, 0
	for _, m := range named.FindAllStringSubmatch(index, -1) {
		if err := look(m[1]); err != nil {
			return err
		}
	}
	for at, n := range sizes {
		if strings.HasPrefix(at, "/assets/flows-") || strings.HasPrefix(at, "/assets/load-") || strings.HasPrefix(at, "/assets/zones-") {
			continue // pages of their own, which come when they are opened
		}
		all += n
		if strings.Contains(index, `"`+at+`"`) {
			first += n
		}
	}
	if first == 0 || first == all {
		return fmt.Errorf("the page begins with %d of %d bytes", first, all)
	}
	s.Add(suite.Series{Name: "page: script and style to begin with, gzipped", Unit: "kB", Target: suite.Want("ours", "<=", 25), Digest: suite.Median, Ours: []float64{float64(first) / 1000}})
	s.Add(suite.Series{Name: "page: all script and style but for workflows, load tests and zones, gzipped", Unit: "kB", Target: suite.Want("ours", "<=", 60), Digest: suite.Median, Ours: []float64{float64(all) / 1000}})
	return nil
}
