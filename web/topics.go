package web

import (
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/docs/topics"
)

// explained is a topic as the page gets it.
type explained struct {
	Name  string        `json:"name"`
	Kind  string        `json:"kind"`
	Doc   string        `json:"doc,omitempty"`
	Parts []topics.Part `json:"parts,omitempty"`
}

// topics answers what can be explained.
func (h *handler) topics(w http.ResponseWriter, _ *http.Request) {
	var list []explained
	for _, t := range topics.All() {
		list = append(list, explained{Name: t.Name, Kind: t.Kind})
	}
	explain(w, list)
}

// topic answers what a word means: what `skein explain` prints.
func (h *handler) topic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	found := topics.Named(topics.All(), name)
	if len(found) == 0 {
		refuse(w, api.Errorf(api.CodeNotFound, "nothing is called %.100q", name).WithHint("choose one of the list"))
		return
	}
	var list []explained
	for _, t := range found {
		list = append(list, explained{t.Name, t.Kind, t.Doc, unlinked(topics.Parse(t.Text))})
	}
	explain(w, list)
}

// unlinked has a link to a section name it, as a word that is explained too.
func unlinked(parts []topics.Part) []topics.Part {
	plain := func(s string) string {
		return topics.Unlinked(s, func(section string) string { return "`" + section + "`" })
	}
	for i, p := range parts {
		if p.Is == topics.Code {
			continue
		}
		parts[i].Text = plain(p.Text)
		for _, row := range p.Rows {
			for k, cell := range row {
				row[k] = plain(cell)
			}
		}
	}
	return parts
}

func explain(w http.ResponseWriter, list []explained) {
	answer(w, http.StatusOK, "application/json", map[string][]explained{"topics": list})
}
