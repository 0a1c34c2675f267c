package client

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/skein-project/skein/api"
)

// Jobs goes through the jobs, newest first, a page at a time. An error is the last that
// comes. A job that is kept no longer when the page behind it is asked for is one
// (not_found): begin again.
func (c *Client) Jobs(ctx context.Context) iter.Seq2[api.Job, error] {
	return pages(func(p api.Page) ([]api.Job, string, error) {
		l, err := c.api.JobsPage(ctx, p)
		return l.Jobs, string(l.Next), err
	})
}

// Terms goes through the terms of the lease, newest first, as Jobs does.
func (c *Client) Terms(ctx context.Context) iter.Seq2[api.TermRecord, error] {
	return pages(func(p api.Page) ([]api.TermRecord, string, error) {
		l, err := c.api.LeaseHistoryPage(ctx, p)
		if l.Next == 0 {
			return l.Terms, "", err
		}
		return l.Terms, strconv.FormatUint(uint64(l.Next), 10), err
	})
}

// Users goes through the users by name, as Jobs does.
func (c *Client) Users(ctx context.Context) iter.Seq2[api.User, error] {
	return pages(func(p api.Page) ([]api.User, string, error) {
		l, err := c.api.UsersPage(ctx, p)
		return l.Users, l.Next, err
	})
}

// Groups goes through the groups by name, as Jobs does.
func (c *Client) Groups(ctx context.Context) iter.Seq2[api.Group, error] {
	return pages(func(p api.Page) ([]api.Group, string, error) {
		l, err := c.api.GroupsPage(ctx, p)
		return l.Groups, l.Next, err
	})
}

// OutsideWorkers goes through the outside workers by id, as Jobs does.
func (c *Client) OutsideWorkers(ctx context.Context) iter.Seq2[api.OutsideWorker, error] {
	return pages(func(p api.Page) ([]api.OutsideWorker, string, error) {
		l, err := c.api.OutsideWorkersPage(ctx, p)
		return l.Workers, string(l.Next), err
	})
}

// perPage is as many as every list gives at once.
const perPage = 1000

// pages goes through a list of which ask gives a page and how to go on.
func pages[T any](ask func(api.Page) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p := api.Page{Limit: perPage}
		for {
			list, next, err := ask(p)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, x := range list {
				if !yield(x, nil) {
					return
				}
			}
			switch next {
			case "":
				return
			case p.After: // for ever
				yield(*new(T), fmt.Errorf("%w: the page behind %.64q ends there too", api.ErrAnswer, next))
				return
			}
			p.After = next
		}
	}
}
