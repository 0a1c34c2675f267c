package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestPages: each list that has pages is asked for the page that is wanted.
func TestPages(t *testing.T) {
	var asked string
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		next := `"x"`
		if r.URL.Path == "/v1/lease/history" {
			next = "7"
		}
		fmt.Fprintf(w, `{"next":%s}`, next)
	}))
	t.Cleanup(daemon.Close)
	c, err := Dial(daemon.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for path, ask := range map[string]func(context.Context, Page) (string, error){
		"/v1/jobs": func(ctx context.Context, p Page) (string, error) {
			list, err := c.JobsPage(ctx, p)
			return string(list.Next), err
		},
		"/v1/users": func(ctx context.Context, p Page) (string, error) {
			list, err := c.UsersPage(ctx, p)
			return list.Next, err
		},
		"/v1/groups": func(ctx context.Context, p Page) (string, error) {
			list, err := c.GroupsPage(ctx, p)
			return list.Next, err
		},
		"/v1/gateway/workers": func(ctx context.Context, p Page) (string, error) {
			list, err := c.OutsideWorkersPage(ctx, p)
			return string(list.Next), err
		},
		"/v1/lease/history": func(ctx context.Context, p Page) (string, error) {
			list, err := c.LeaseHistoryPage(ctx, p)
			return fmt.Sprint(list.Next), err
		},
	} {
		for query, page := range map[string]Page{
			"": {}, "?limit=3": {Limit: 3}, "?after=a%26b": {After: "a&b"}, "?after=x&limit=3": {Limit: 3, After: "x"},
		} {
			next, err := ask(t.Context(), page)
			if err != nil || asked != path+query || next != "x" && next != "7" {
				t.Errorf("%s by %+v: asked %s, next %q, %v", path, page, asked, next, err)
			}
		}
	}
}
