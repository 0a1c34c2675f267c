package api

import (
	"fmt"
	"strings"
)

// maxFound bounds how many of several an error names.
const maxFound = 8

// Named is what a person calls by its id, the beginning of it, or its name.
type Named struct{ ID, Name, Owner string }

// Find returns the id of the entry of list that text names, among those of owner (empty:
// everybody's): by its id, else its name, else the beginning of its id. Otherwise it
// returns a *Problem, which says that there is none, or which entries match. one and
// several are the words for such a thing, command is what lists them all.
func Find(list []Named, text, owner, one, several, command string) (string, error) {
	var named, begun []string
	for _, x := range list {
		switch {
		case owner != "" && x.Owner != owner:
		case x.ID == text:
			return x.ID, nil
		case x.Name == text:
			named = append(named, x.ID)
		case strings.HasPrefix(x.ID, text):
			begun = append(begun, x.ID)
		}
	}
	found := named
	if len(named) == 0 {
		found = begun
	}
	switch n := len(found); {
	case n == 0:
		return "", Errorf(CodeNotFound, "no %s is called or begins with %.64q", one, text).WithHint("%s", command)
	case n == 1:
		return found[0], nil
	case n > maxFound:
		found = append(found[:maxFound:maxFound], fmt.Sprintf("and %d more", n-maxFound))
	}
	return "", Errorf(CodeConflict, "several %s are called or begin with %.64q: %s", several, text, strings.Join(found, ", ")).
		WithHint("give the id of one, or more of it")
}
