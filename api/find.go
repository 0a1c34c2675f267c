package api

import (
	"fmt"
	"strings"
)

// maxFound bounds how many of several an error names.
const maxFound = 8

// One is the only one of what was found by the text of a person; else a *Problem says
// that there is none, or which ones there are. one and several are what it is called,
// list is the command that shows all.
func One(found []string, text, one, several, list string) (string, error) {
	switch n := len(found); {
	case n == 0:
		return "", Errorf(CodeNotFound, "no %s is called or begins with %.64q", one, text).WithHint("%s", list)
	case n == 1:
		return found[0], nil
	case n > maxFound:
		found = append(found[:maxFound:maxFound], fmt.Sprintf("and %d more", n-maxFound))
	}
	return "", Errorf(CodeConflict, "several %s are called or begin with %.64q: %s", several, text, strings.Join(found, ", ")).
		WithHint("give the id of one, or more of it")
}
