package past

import (
	"context"
	"net/http"
	"strconv"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/openapi"
)

// maxTerms bounds a page of terms, and is how many there are where nobody says.
const maxTerms = 1000

// TermsParams are what Terms takes.
var TermsParams = []openapi.Param{
	{Name: "limit", Type: uint64(0), About: "at most so many, 1,000 at most; next then says how to go on"},
	{Name: "after", Type: uint64(0), About: "a term: those before it; what next said"},
}

// Terms answers GET /v1/lease/history. What all tells is the same whatever page is
// asked for: how long nobody held follows from the terms behind it too. Where the log has
// one term twice, both are on one page.
func Terms(all func(context.Context) (api.LeaseHistory, error)) func(*http.Request) (api.LeaseHistory, error) {
	return func(r *http.Request) (api.LeaseHistory, error) {
		q := r.URL.Query()
		limit, below := maxTerms, cluster.Term(0)
		if q.Has("limit") {
			n, err := strconv.Atoi(q.Get("limit"))
			if err != nil || n < 1 || n > maxTerms {
				return api.LeaseHistory{}, api.Errorf(api.CodeInvalidRequest, "limit: %.32q is not a number from 1 to %d", q.Get("limit"), maxTerms)
			}
			limit = n
		}
		if q.Has("after") {
			n, err := strconv.ParseUint(q.Get("after"), 10, 64)
			if err != nil || n == 0 {
				return api.LeaseHistory{}, api.Errorf(api.CodeInvalidRequest, "after: %.32q is no term", q.Get("after"))
			}
			below = cluster.Term(n)
		}
		h, err := all(r.Context())
		if err != nil {
			return h, err
		}
		for below > 0 && len(h.Terms) > 0 && h.Terms[0].Term >= below {
			h.Terms = h.Terms[1:]
		}
		for limit < len(h.Terms) && h.Terms[limit].Term == h.Terms[limit-1].Term {
			limit++
		}
		if limit < len(h.Terms) {
			h.Terms, h.Next = h.Terms[:limit], h.Terms[limit-1].Term
		}
		return h, nil
	}
}
