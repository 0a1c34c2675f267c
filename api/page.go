package api

import (
	"net/url"
	"strconv"
)

// Page is the part of a list that is asked for.
type Page struct {
	Limit int    // at most so many; 0: as many as the list gives at once
	After string // what Next of the page before said; empty: from the first one on
}

// of is where p of the list at path is.
func (p Page) of(path string) string {
	q := url.Values{}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.After != "" {
		q.Set("after", p.After)
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
