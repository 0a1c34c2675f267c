package once

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
)

func isCode(err error, code api.Code) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Code == code
}

// TestOnce asks for one change again and again: before, while and after it is done.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New()
		did := 0
		do := func() (any, error) {
			time.Sleep(time.Second)
			did++
			return did, nil
		}
		ann := Request{Who: "user:ann", What: "POST /v1/leave", Key: "k", Body: []byte("{}")}
		answers := make(chan any, 10)
		for range cap(answers) {
			go func() {
				a, err := k.Do(t.Context(), ann, do)
				if err != nil {
					t.Error(err)
				}
				answers <- a
			}()
		}
		for range cap(answers) {
			if a := <-answers; a != 1 {
				t.Errorf("answer %v, want that of the first", a)
			}
		}
		time.Sleep(kept)
		if a, err := k.Do(t.Context(), ann, do); a != 1 || err != nil {
			t.Errorf("after %s: %v, %v", kept, a, err)
		}
		other := ann
		other.Body = []byte(`{"to":"n3"}`)
		if _, err := k.Do(t.Context(), other, do); !isCode(err, api.CodeConflict) {
			t.Errorf("the same key for another body: %v", err)
		}
		for i, r := range []Request{
			{Who: "user:bob", What: ann.What, Key: ann.Key, Body: ann.Body},
			{Who: ann.Who, What: "POST /v1/mesh/rotate", Key: ann.Key, Body: ann.Body},
			{Who: ann.Who, What: ann.What, Key: "k2", Body: ann.Body},
		} {
			if a, err := k.Do(t.Context(), r, do); a != i+2 || err != nil {
				t.Errorf("%+v: %v, %v, want it done", r, a, err)
			}
		}
		time.Sleep(kept + time.Millisecond)
		if a, err := k.Do(t.Context(), other, do); a != 5 || err != nil {
			t.Errorf("when it is forgotten: %v, %v", a, err)
		}
		if len(k.list) != 1 || len(k.of) != 1 {
			t.Errorf("%d answers of %d are kept, want the last one", len(k.list), len(k.of))
		}
	})
}

// TestFailuresAreTriedAgain: what was refused, or panicked, is done when it is asked
// for again; who cannot wait goes.
func TestFailuresAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New()
		r := Request{Who: "uid:0", What: "POST /v1/lease/step-down", Key: "k"}
		refused := errors.New("no holder")
		if _, err := k.Do(t.Context(), r, func() (any, error) { return nil, refused }); !errors.Is(err, refused) {
			t.Error(err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = k.Do(t.Context(), r, func() (any, error) { panic("broken") })
		}()
		go func() {
			_, _ = k.Do(t.Context(), r, func() (any, error) { time.Sleep(time.Minute); return "done", nil })
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := k.Do(ctx, r, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if a, err := k.Do(t.Context(), r, nil); a != "done" || err != nil {
			t.Errorf("%v, %v", a, err)
		}
	})
}

// TestBounds fills a Keeper: one who asks cannot take the room of the others.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New()
		do := func() (any, error) { return true, nil }
		ask := func(who string, i int) error {
			_, err := k.Do(t.Context(), Request{Who: who, What: "POST /", Key: fmt.Sprint(i)}, do)
			return err
		}
		for who := range most / mostOne {
			for i := range mostOne {
				if err := ask(fmt.Sprint(who), i); err != nil {
					t.Fatal(err)
				}
			}
			if err := ask(fmt.Sprint(who), mostOne); !isCode(err, api.CodeOverloaded) {
				t.Fatal(err)
			}
		}
		if err := ask("one more", 0); !isCode(err, api.CodeOverloaded) {
			t.Error(err)
		}
		time.Sleep(kept + time.Second)
		if err := ask("one more", 0); err != nil {
			t.Error(err)
		}
	})
}

func TestCheckKey(t *testing.T) {
	for key, good := range map[string]bool{
		"k": true, "a b-c_d": true, strings.Repeat("x", MaxKey): true,
		strings.Repeat("x", MaxKey+1): false, "a\nb": false, "ä": false, "\x1b[2J": false,
	} {
		if prob := CheckKey(key); (prob == nil) != good {
			t.Errorf("%q: %v", key, prob)
		}
	}
}
