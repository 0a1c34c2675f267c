package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/internal/advice"
)

// Bounds of an examination.
const (
	examineTime = 2 * time.Second
	scanAtOnce  = 1000
	scans       = 200
)

// Examine looks at a server as a Store of a cluster would: what it is, what about it is not as
// it should be, or why it cannot serve. What to do about each is an advice.Error. It changes
// nothing there.
func Examine(ctx context.Context, v Server, cluster string) (what string, warned []error, err error) {
	client, err := v.dialWithin(examineTime)
	if err != nil {
		return "", nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	info, warned, err := look(ctx, client, time.Now)
	if err != nil {
		return "", nil, err
	}
	what = fmt.Sprintf("Redis %.20s at %s", info["redis_version"], v)
	// Where the fence of a cluster is, it keeps its workers. Of very many keys not all are
	// looked at: it is but a warning.
	var others []string
	for cursor, n := uint64(0), 0; n < scans; n++ {
		got, err := client.Do(ctx, client.B().Scan().Cursor(cursor).Match(v.Prefix+":{"+v.Prefix+":*}:fence").Count(scanAtOnce).Build()).AsScanEntry()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			return "", nil, said(err)
		}
		for _, k := range got.Elements {
			if k != keysOf(v.Prefix, cluster)+"fence" {
				others = append(others, strings.TrimSuffix(strings.TrimPrefix(k, v.Prefix+":{"+v.Prefix+":"), "}:fence"))
			}
		}
		if cursor = got.Cursor; cursor == 0 {
			break
		}
	}
	if len(others) > 0 && cluster != "" {
		slices.Sort(others)
		warned = append(warned, advice.New(
			fmt.Sprintf("another cluster keeps its workers there under the same redis.prefix: %.80s", strings.Join(others, ", ")),
			"that may be meant: they know nothing of each other, but share its memory. If this is a copy of that cluster, give it a Redis of its own"))
	}
	return what, warned, nil
}
