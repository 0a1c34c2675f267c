package past

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestPagesOfTerms: pages hold together all there are, once each and newest first, also
// when terms begin meanwhile, and where the log has one term of two holders.
func TestPagesOfTerms(t *testing.T) {
	log := []cluster.Term{30, 29, 27, 26, 25, 25, 25, 7, 3, 1}
	newest := cluster.Term(30)
	terms := Terms(func(context.Context) (api.LeaseHistory, error) {
		var h api.LeaseHistory
		for term := newest; term > 30; term-- {
			h.Terms = append(h.Terms, api.TermRecord{Term: term})
		}
		for _, term := range log {
			h.Terms = append(h.Terms, api.TermRecord{Term: term})
		}
		return h, nil
	})
	ask := func(query string) ([]cluster.Term, cluster.Term, error) {
		h, err := terms(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, nil))
		var got []cluster.Term
		for _, r := range h.Terms {
			got = append(got, r.Term)
		}
		return got, h.Next, err
	}
	for limit, pages := range map[int]int{1: 8, 2: 5, 5: 2, 6: 2, 7: 2, 9: 2, 10: 1, 1000: 1} {
		newest = 30
		got, next, err := ask(fmt.Sprintf("limit=%d", limit))
		asked := 1
		for err == nil && next != 0 && asked <= 10 {
			newest++
			var more []cluster.Term
			more, next, err = ask(fmt.Sprintf("limit=%d&after=%d", limit, next))
			got, asked = append(got, more...), asked+1
			if len(more) > limit+2 { // two more of term 25
				t.Errorf("by %d: %d on one page", limit, len(more))
			}
		}
		if !slices.Equal(got, log) || asked != pages || err != nil {
			t.Errorf("by %d: %d pages of %v, %v", limit, asked, got, err)
		}
	}
	// Nobody says how many: there is a bound all the same.
	newest = 30 + 991
	if got, next, err := ask(""); err != nil || len(got) != 1000 || got[0] != newest || next != 3 {
		t.Errorf("of 1001: %d, next %d, %v", len(got), next, err)
	}
	if got, next, err := ask("after=1"); err != nil || len(got) != 0 || next != 0 {
		t.Errorf("before the first: %v, %d, %v", got, next, err)
	}
	for _, bad := range []string{"limit=0", "limit=-1", "limit=1001", "limit=x", "limit=", "after=", "after=0", "after=-1", "after=x", "after=18446744073709551616"} {
		if _, _, err := ask(bad); !api.IsCode(err, api.CodeInvalidRequest) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
