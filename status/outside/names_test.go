package outside

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
)

// TestPagesOfNames: pages hold together all there are, once each, also when the one to go
// on after is gone meanwhile.
func TestPagesOfNames(t *testing.T) {
	var all []string
	for i := range 25 {
		all = append(all, fmt.Sprintf("n%02d", i))
	}
	gone := ""
	left := func() []string { return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == gone }) }
	users := Users(func(context.Context) (api.Users, error) {
		var out api.Users
		for _, n := range left() {
			out.Users = append(out.Users, api.User{Name: n})
		}
		return out, nil
	})
	groups := Groups(func(context.Context) (api.Groups, error) {
		var out api.Groups
		for _, n := range left() {
			out.Groups = append(out.Groups, api.Group{Name: n})
		}
		return out, nil
	})
	ask := map[string]func(query string) ([]string, string, error){
		"users": func(query string) (names []string, next string, err error) {
			list, err := users(request(t, query))
			for _, u := range list.Users {
				names = append(names, u.Name)
			}
			return names, list.Next, err
		},
		"groups": func(query string) (names []string, next string, err error) {
			list, err := groups(request(t, query))
			for _, g := range list.Groups {
				names = append(names, g.Name)
			}
			return names, list.Next, err
		},
	}
	for what, ask := range ask {
		for limit, pages := range map[int]int{1: 25, 7: 4, 24: 2, 25: 1, 1000: 1} {
			gone = ""
			var got []string
			asked, after := 0, ""
			for {
				names, next, err := ask(fmt.Sprintf("limit=%d&after=%s", limit, after))
				if err != nil || len(names) > limit {
					t.Fatalf("%s by %d after %q: %d, %v", what, limit, after, len(names), err)
				}
				got, asked = append(got, names...), asked+1
				if after, gone = next, next; next == "" {
					break
				}
			}
			if !slices.Equal(got, all) || asked != pages {
				t.Errorf("%s by %d: %d pages of %v", what, limit, asked, got)
			}
		}
		if names, next, err := ask(""); err != nil || len(names) != 25 || next != "" {
			t.Errorf("all %s: %d, %q, %v", what, len(names), next, err)
		}
		if names, next, err := ask("after=zz"); err != nil || len(names) != 0 || next != "" {
			t.Errorf("%s behind the last: %v, %q, %v", what, names, next, err)
		}
		for _, bad := range []string{"limit=0", "limit=-1", "limit=1001", "limit=x", "limit=", "after=" + strings.Repeat("x", 129)} {
			if _, _, err := ask(bad); !api.IsCode(err, api.CodeInvalidRequest) {
				t.Errorf("%s?%s: %v", what, bad, err)
			}
		}
	}
}

func request(t *testing.T, query string) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, nil)
}
