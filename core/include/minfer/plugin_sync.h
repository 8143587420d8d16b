/*
 * Queues and events of a backend whose work is complete when the call that queued it returns (C11,
 * also valid C++; header-only and optional). They hold nothing, so one of each serves every device:
 * the functions have the ABI's signatures and go into the plugin's table as they are. Thread-safe.
 */
#ifndef MINFER_PLUGIN_SYNC_H
#define MINFER_PLUGIN_SYNC_H

#include "minfer/plugin_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

struct minfer_queue {
  int unused;
};
struct minfer_event {
  int unused;
};
static struct minfer_queue minfer_the_queue;
static struct minfer_event minfer_the_event;

static inline minfer_status minfer_sync_queue_create(minfer_device* device, minfer_queue** out,
                                                     minfer_error* error) {
  (void)device, (void)error;
  *out = &minfer_the_queue;
  return MINFER_OK;
}

static inline void minfer_sync_queue_destroy(minfer_queue* queue) {
  (void)queue;
}

static inline minfer_status minfer_sync_queue_wait(minfer_queue* queue, minfer_error* error) {
  (void)queue, (void)error;
  return MINFER_OK;
}

static inline minfer_status minfer_sync_event_create(minfer_device* device, minfer_event** out,
                                                     minfer_error* error) {
  (void)device, (void)error;
  *out = &minfer_the_event;
  return MINFER_OK;
}

static inline void minfer_sync_event_destroy(minfer_event* event) {
  (void)event;
}

static inline minfer_status minfer_sync_event_record(minfer_event* event, minfer_queue* queue,
                                                     minfer_error* error) {
  (void)event, (void)queue, (void)error;
  return MINFER_OK;
}

/* For event_wait and event_query: what was queued before the event is complete. */
static inline minfer_status minfer_sync_event_wait(minfer_event* event, minfer_error* error) {
  (void)event, (void)error;
  return MINFER_OK;
}

#ifdef __cplusplus
}
#endif

#endif /* MINFER_PLUGIN_SYNC_H */
