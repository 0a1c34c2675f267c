package redis

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // G505: how Redis names scripts
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/redis/rueidis"
)

//go:embed scripts/*.lua
var texts embed.FS

// script is one of scripts/*.lua with what it uses of the prelude.
type script struct {
	*rueidis.Lua
	name, sha, text string
}

// scripts says what each does in its file.
type scripts struct {
	holderScripts
	seatScripts
	guard guardScripts
	list  []*script // all of them
}

// holderScripts are those that carry the holder's term.
type holderScripts struct{ raise, tell, holds, assign, cancel, settle, drop, trim *script }

// seatScripts are those of workers and of the gateways that serve them.
type seatScripts struct{ attach, beat, complete, assigned, bye, names, tick *script }

// guardScripts are those of a guard.Guard.
type guardScripts struct{ count, nonce, first, open, claim *script }

func loadScripts() (all scripts, err error) { return readScripts(texts.ReadFile) }

func readScripts(read func(name string) ([]byte, error)) (all scripts, err error) {
	file, err := read("scripts/prelude.lua")
	if err != nil {
		return all, err
	}
	prelude := partsOf(string(file))
	for name, at := range map[string]**script{
		"raise": &all.raise, "tell": &all.tell, "holds": &all.holds, "assign": &all.assign, "cancel": &all.cancel, "settle": &all.settle,
		"drop": &all.drop, "trim": &all.trim,
		"attach": &all.attach, "beat": &all.beat, "complete": &all.complete, "assigned": &all.assigned, "bye": &all.bye,
		"names": &all.names, "tick": &all.tick,
		"count": &all.guard.count, "nonce": &all.guard.nonce, "first": &all.guard.first, "open": &all.guard.open, "claim": &all.guard.claim,
	} {
		text, err := read("scripts/" + name + ".lua")
		if err != nil {
			return all, err
		}
		for _, part := range include.FindAllSubmatch(text, -1) {
			file, err := read("scripts/" + string(part[1]) + ".lua")
			if err != nil {
				return all, err
			}
			text = bytes.Replace(text, part[0], file, 1)
		}
		linked := link(prelude, string(text))
		sum := sha1.Sum([]byte(linked)) //nolint:gosec // G401: how Redis names scripts
		*at = &script{rueidis.NewLuaScript(linked), name, hex.EncodeToString(sum[:]), linked}
		all.list = append(all.list, *at)
	}
	return all, nil
}

var (
	definition = regexp.MustCompile(`(?m)^local (?:function )?(\w+(?:, \w+)*)`)
	include    = regexp.MustCompile(`(?m)^--- (\w+)\n`)
)

// whose begins a script that is about one worker.
const whose = "local id = "

// part is something that the prelude defines.
type part struct {
	text  string
	names []string // of what it defines
	words []string
}

func partsOf(prelude string) (out []part) {
	for text := range strings.SplitSeq(bare(prelude), "\n\n") {
		if defines := definition.FindStringSubmatch(text); defines != nil {
			out = append(out, part{strings.TrimSpace(text) + "\n", strings.Split(defines[1], ", "), words(text)})
		}
	}
	return out
}

// bare is a text without its comments.
func bare(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimLeft(line, " "), "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// literal is a text within a script, which names nothing.
var literal = regexp.MustCompile(`'[^'\n]*'`)

func words(text string) []string {
	return strings.FieldsFunc(literal.ReplaceAllString(text, "' '"), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// link puts before a script what it names of the prelude, and what that names: each function
// is made anew at each call, which costs as much as a command. It comes after the line that
// says whose it is.
func link(prelude []part, text string) string {
	text = bare(text)
	first := ""
	if strings.HasPrefix(text, whose) {
		first, text, _ = strings.Cut(text, "\n")
		first += "\n"
	}
	named := map[string]bool{}
	name := func(list []string) {
		for _, w := range list {
			named[w] = true
		}
	}
	name(words(text))
	for _, p := range slices.Backward(prelude) { // each names only what is before it
		if slices.ContainsFunc(p.names, func(n string) bool { return named[n] }) {
			name(p.words)
			text = p.text + text
		}
	}
	return first + text
}

// answer is what a script returns: what became of it, and more.
type answer []rueidis.RedisMessage

// errAnswer says that a script returned what it never does: somebody else wrote to its keys.
var errAnswer = errors.New("somebody else wrote to the keys of skein in Redis")

// what is the first word.
func (a answer) what() string { return a.text(0) }

func (a answer) text(i int) string {
	if i >= len(a) {
		return ""
	}
	s, err := a[i].ToString()
	if err != nil {
		if n, err := a[i].AsInt64(); err == nil {
			return fmt.Sprint(n)
		}
	}
	return s
}

func (a answer) list(i int) []string {
	if i >= len(a) {
		return nil
	}
	l, _ := a[i].AsStrSlice() // what is no list is empty
	return l
}
