package redis

import (
	"embed"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

//go:embed scripts/*.lua
var texts embed.FS

// script is one of scripts/*.lua.
type script struct {
	*rueidis.Lua
	name string
}

// scripts says what each does in its file.
type scripts struct {
	raise, tell, assign, cancel, settle, drop          *script // the holder's
	attach, beat, complete, assigned, bye, names, tick *script
	guard                                              guardScripts
}

// guardScripts are those of a guard.Guard.
type guardScripts struct{ count, nonce, first, open, claim *script }

func loadScripts() (all scripts, err error) { return readScripts(texts.ReadFile) }

func readScripts(read func(name string) ([]byte, error)) (all scripts, err error) {
	prelude, err := read("scripts/prelude.lua")
	if err != nil {
		return all, err
	}
	rate, err := read("scripts/rate.lua")
	if err != nil {
		return all, err
	}
	for name, at := range map[string]**script{
		"raise": &all.raise, "tell": &all.tell, "assign": &all.assign, "cancel": &all.cancel, "settle": &all.settle, "drop": &all.drop,
		"attach": &all.attach, "beat": &all.beat, "complete": &all.complete, "assigned": &all.assigned, "bye": &all.bye,
		"names": &all.names, "tick": &all.tick,
		"count": &all.guard.count, "nonce": &all.guard.nonce, "first": &all.guard.first, "open": &all.guard.open, "claim": &all.guard.claim,
	} {
		text, err := read("scripts/" + name + ".lua")
		if err != nil {
			return all, err
		}
		before := prelude
		if name == "count" || name == "claim" {
			before = append(slices.Clone(prelude), rate...)
		}
		*at = &script{rueidis.NewLuaScript(string(before) + string(text)), name}
	}
	return all, nil
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
