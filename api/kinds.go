package api

import (
	"path"
	"strings"

	"github.com/skein-project/skein/cluster/event"
)

// maxKinds bounds the text of a filter by kind.
const maxKinds = 1024

// ParseKinds reads kinds of event, or patterns as in path.Match, separated by
// commas; the empty text is all, and no list. A word that means no kind is a
// slip of the pen, and refused by a Problem that lists them.
func ParseKinds(v string) ([]string, error) {
	if len(v) > maxKinds {
		return nil, Errorf(CodeInvalidRequest, "kind: %d characters, at most %d are allowed", len(v), maxKinds)
	}
	if v == "" {
		return nil, nil
	}
	list := strings.Split(v, ",")
	for _, pattern := range list {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, Errorf(CodeInvalidRequest, "kind: %.64q is not a pattern", pattern)
		}
		if !meansKind(pattern) {
			return nil, Errorf(CodeInvalidRequest, "no kind of event is called %.64q", pattern).
				WithHint("kinds are %s; patterns like 'lease_*' are possible", kindNames())
		}
	}
	return list, nil
}

func meansKind(pattern string) bool {
	for _, k := range event.Kinds() {
		if ok, err := path.Match(pattern, string(k)); ok && err == nil {
			return true
		}
	}
	return false
}

func kindNames() string {
	var names []string
	for _, k := range event.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
