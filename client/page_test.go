package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/skein-project/skein/api"
)

// lists are the routes that give pages, and how a Client goes through each.
var lists = map[string]func(*testing.T, *Client) error{
	"/v1/jobs":            func(t *testing.T, c *Client) error { return walk(t, c.Jobs(t.Context())) },
	"/v1/lease/history":   func(t *testing.T, c *Client) error { return walk(t, c.Terms(t.Context())) },
	"/v1/users":           func(t *testing.T, c *Client) error { return walk(t, c.Users(t.Context())) },
	"/v1/groups":          func(t *testing.T, c *Client) error { return walk(t, c.Groups(t.Context())) },
	"/v1/gateway/workers": func(t *testing.T, c *Client) error { return walk(t, c.OutsideWorkers(t.Context())) },
}

// rows are in each list, and so many a page has of the host, whatever is asked for.
const rows, onePage = 25, 10

// walk goes through a list up to an error, and says it.
func walk[T any](t *testing.T, list iter.Seq2[T, error]) error {
	t.Helper()
	var got []string
	for x, err := range list {
		if err != nil {
			return err
		}
		got = append(got, nameOf(x))
	}
	if len(got) != rows || len(slices.Compact(slices.Sorted(slices.Values(got)))) != rows {
		t.Errorf("%d rows: %s", len(got), got)
	}
	for x, err := range list { // the caller has seen enough
		if err != nil {
			return err
		}
		if nameOf(x) != got[0] {
			t.Errorf("began with %s, then with %s", got[0], nameOf(x))
		}
		break
	}
	return nil
}

func nameOf(row any) string {
	switch x := row.(type) {
	case api.Job:
		return string(x.ID)
	case api.TermRecord:
		return fmt.Sprint(x.Term)
	case api.User:
		return x.Name
	case api.Group:
		return x.Name
	case api.OutsideWorker:
		return string(x.Worker)
	}
	panic(fmt.Sprintf("a row of %T", row))
}

// paged serves the lists, ten rows a page.
func paged(t *testing.T, change func(next int) int) (c *Client, asked func() int) {
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		if q := r.URL.Query(); q.Get("limit") != strconv.Itoa(perPage) || q.Has("after") != (q.Get("after") != "") {
			t.Errorf("asked for %s", r.URL.RequestURI())
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("after")) // none: from the first
		to := min(from+onePage, rows)
		next := ""
		if to < rows {
			next = strconv.Itoa(change(to))
		}
		name := func(i int) string { return strconv.Itoa(i + 1) }
		switch r.URL.Path {
		case "/v1/jobs":
			line(w, page(next, "jobs", "id", from, to, name))
		case "/v1/users":
			line(w, page(next, "users", "name", from, to, name))
		case "/v1/groups":
			line(w, page(next, "groups", "name", from, to, name))
		case "/v1/gateway/workers":
			line(w, page(next, "workers", "worker", from, to, name))
		case "/v1/lease/history":
			line(w, page(next, "terms", "term", from, to, func(i int) json.RawMessage { return json.RawMessage(name(i)) }))
		}
	}))
	t.Cleanup(s.Close)
	c, err := Dial(Options{Endpoints: []string{s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, func() int { return n }
}

func page[T any](next, list, field string, from, to int, name func(int) T) map[string]any {
	out := []map[string]T{}
	for i := from; i < to; i++ {
		out = append(out, map[string]T{field: name(i)})
	}
	body := map[string]any{list: out}
	if next != "" {
		body["next"] = next
		if list == "terms" {
			body["next"] = json.RawMessage(next)
		}
	}
	return body
}

// TestPages: a Client goes through each list, page by page, no further than it is asked,
// and does not go in circles.
func TestPages(t *testing.T) {
	for path, through := range lists {
		c, asked := paged(t, func(next int) int { return next })
		if err := through(t, c); err != nil || asked() != 3+1 {
			t.Errorf("%s: %v after %d pages", path, err, asked())
		}
		c, asked = paged(t, func(int) int { return onePage })
		if err := through(t, c); !errors.Is(err, api.ErrAnswer) || asked() != 2 {
			t.Errorf("%s, whose pages end at the same place: %v after %d pages", path, err, asked())
		}
	}
}

// TestEveryPagedRoute: lists has every route that takes limit and after, but the streams.
func TestEveryPagedRoute(t *testing.T) {
	text, err := os.ReadFile("../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
			Responses  map[string]struct {
				Content map[string]any
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for path, methods := range doc.Paths {
		get, names := methods["get"], map[string]bool{}
		for _, p := range get.Parameters {
			names[p.Name] = true
		}
		if names["limit"] && names["after"] && get.Responses["200"].Content["application/json"] != nil {
			found[path] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(lists)); !slices.Equal(got, want) {
		t.Errorf("paged routes %s, a Client goes through %s", got, want)
	}
}
