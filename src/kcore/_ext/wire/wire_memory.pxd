"""Allocates and frees message objects: instances that have only slots, their lists, and packed int32s.

The interpreter's general allocation and deallocation would take as long as the rest of decoding. The C code below has
state, so only `wire_program.pyx` may cimport this file.

An array of int32s (replicas, ISRs: most of a control message) stays packed as a `PackedInts` in its slot, until a user
reads the list (`ListField` in wire_lists.pyx). A list of three would need 96 bytes and three times as much time.

Instances of small messages use memory of the interpreter's allocator; freed memory is kept for the next instances
(`spares`). Instances of big messages use slabs of 2 MiB with huge pages on Linux, since page faults for pages of 4 KiB
would take longer than decoding. Python allocates the instances that Python code makes. Deallocation finds by the
address if an instance is in a slab.
"""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int32_t, uint8_t

cdef extern from *:
    """
    #include <structmember.h>
    #if defined(__linux__) || defined(__APPLE__)
    #include <sys/mman.h>
    #define HAS_SLABS 1
    #else
    #define HAS_SLABS 0
    #endif
    #if defined(__SANITIZE_ADDRESS__)
    #include <sanitizer/asan_interface.h>
    #else
    #define ASAN_POISON_MEMORY_REGION(at, size) ((void)0)
    #define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)0)
    #endif
    #if defined(Py_TRACE_REFS) || defined(Py_REF_DEBUG) || defined(Py_GIL_DISABLED)
    #define MAKES_ITS_OWN 0  /* These builds count or mark each new object, which only the interpreter may do. */
    #else
    #define MAKES_ITS_OWN 1
    #endif

    /* The collector's header before an object; two zeros if the object is untracked. It is not part of the API, so
       `check_head` verifies it. */
    typedef struct { uintptr_t next, previous; } Head;
    static int knows_head = 0;

    static void check_head(Py_ssize_t bytes) {
        knows_head = MAKES_ITS_OWN && bytes == sizeof(Head);
    }

    enum { SIZES = 64, MOST_SPARES = 64 };  /* Sizes in pointers below SIZES are kept, MOST_SPARES blocks of each. */

    static inline Py_ssize_t size_class(PyTypeObject *type) {
        Py_ssize_t size = (sizeof(Head) + type->tp_basicsize) / sizeof(PyObject *);
        return size < SIZES ? size : 0;  /* 0: too large, so that freed memory of this type is not kept. */
    }

    /* Slabs. */
    enum { SLAB_BITS = 21, FIRST_BLOCK = 64, ADDRESS_BITS = 47 };
    #define SLAB_SIZE ((Py_ssize_t)1 << SLAB_BITS)
    typedef struct Slab {
        struct Slab *next, *previous;  /* Links to other slabs with room for the same block size. */
        void *freed;                   /* Freed blocks; the first word of each links to the next. */
        char *unused;                  /* The first block that was never used. */
        Py_ssize_t block, used;        /* Bytes of a block; the number of blocks in use. */
        Py_ssize_t size;               /* Pointers of a block. */
    } Slab;
    static Slab *with_room[SIZES];
    static Slab *kept = NULL;  /* An empty slab, kept so that successive messages need no system call. */

    /* A bit for each 2 MiB of the address space, set if they are a slab. Few pages of this array are ever touched. */
    static uint64_t is_slab[(size_t)1 << (ADDRESS_BITS - SLAB_BITS - 6)];

    static inline Slab *slab_of(const void *at) {
        uintptr_t number = (uintptr_t)at >> SLAB_BITS;
        if (number >> (ADDRESS_BITS - SLAB_BITS) || !(is_slab[number >> 6] >> (number & 63) & 1)) return NULL;
        return (Slab *)(number << SLAB_BITS);
    }

    static void mark_slab(Slab *slab) {
        uintptr_t number = (uintptr_t)slab >> SLAB_BITS;
        is_slab[number >> 6] ^= (uint64_t)1 << (number & 63);
    }

    static inline int has_room(const Slab *slab) {
        return slab->freed != NULL || slab->unused + slab->block <= (char *)slab + SLAB_SIZE;
    }

    static void link_slab(Slab *slab) {
        slab->previous = NULL;
        slab->next = with_room[slab->size];
        if (slab->next) slab->next->previous = slab;
        with_room[slab->size] = slab;
    }

    static void unlink_slab(Slab *slab) {
        if (slab->next) slab->next->previous = slab->previous;
        if (slab->previous) slab->previous->next = slab->next; else with_room[slab->size] = slab->next;
    }

    /* Maps 2 MiB at an address that is a multiple of 2 MiB; NULL if it fails. */
    static Slab *map_slab(void) {
    #if HAS_SLABS
        char *whole = mmap(NULL, 2 * SLAB_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
        if (whole == MAP_FAILED) return NULL;
        char *at = (char *)(((uintptr_t)whole + SLAB_SIZE - 1) >> SLAB_BITS << SLAB_BITS);
        if (at > whole) munmap(whole, at - whole);
        if (at < whole + SLAB_SIZE) munmap(at + SLAB_SIZE, whole + SLAB_SIZE - at);
        if ((uintptr_t)at >> ADDRESS_BITS) {
            munmap(at, SLAB_SIZE);
            return NULL;
        }
    #ifdef MADV_HUGEPAGE
        madvise(at, SLAB_SIZE, MADV_HUGEPAGE);
    #endif
        PyTraceMalloc_Track(0, (uintptr_t)at, SLAB_SIZE);
        return (Slab *)at;
    #else
        return NULL;
    #endif
    }

    static void unmap_slab(Slab *slab) {
    #if HAS_SLABS
        ASAN_UNPOISON_MEMORY_REGION(slab, SLAB_SIZE);
        PyTraceMalloc_Untrack(0, (uintptr_t)slab);
        munmap(slab, SLAB_SIZE);
    #endif
    }

    static Slab *open_slab(Py_ssize_t size) {
        Slab *slab = kept ? kept : map_slab();
        if (slab == NULL) return NULL;
        kept = NULL;
        slab->size = size;
        slab->block = size * sizeof(PyObject *);
        slab->used = 0;
        slab->freed = NULL;
        slab->unused = (char *)slab + FIRST_BLOCK;
        ASAN_POISON_MEMORY_REGION(slab->unused, SLAB_SIZE - FIRST_BLOCK);
        mark_slab(slab);
        link_slab(slab);
        return slab;
    }

    static void *take_block(Py_ssize_t size) {
        Slab *slab = with_room[size] ? with_room[size] : open_slab(size);
        void *block;
        if (slab == NULL) return NULL;
        if ((block = slab->freed) != NULL) {
            ASAN_UNPOISON_MEMORY_REGION(block, slab->block);
            slab->freed = *(void **)block;
        } else {
            block = slab->unused;
            ASAN_UNPOISON_MEMORY_REGION(block, slab->block);
            slab->unused += slab->block;
        }
        slab->used++;
        if (!has_room(slab)) unlink_slab(slab);
        return block;
    }

    static void give_back(Slab *slab, void *block) {
        int was_full = !has_room(slab);
        *(void **)block = slab->freed;
        slab->freed = block;
        ASAN_POISON_MEMORY_REGION(block, slab->block);
        if (was_full) link_slab(slab);
        if (--slab->used > 0) return;
        unlink_slab(slab);
        mark_slab(slab);
        if (kept == NULL) kept = slab; else unmap_slab(slab);
    }

    /* Memory of freed instances, by size in pointers. The first slot of each links to the next. */
    static struct { PyObject *first; int count; } spares[SIZES];

    static void free_slots(PyObject *self);

    static inline PyObject *init_instance(PyObject *instance, PyTypeObject *type) {
    #if !MAKES_ITS_OWN
        return PyObject_Init(instance, type);
    #else
        Py_SET_TYPE(instance, type);  /* As PyObject_Init, without its two calls. */
        Py_INCREF(type);
        Py_SET_REFCNT(instance, 1);
        return instance;
    #endif
    }

    static PyObject *make_in_slab(PyTypeObject *type, Py_ssize_t size) {
        Head *block = take_block(size);
        if (block == NULL) return NULL;
        memset(block, 0, size * sizeof(PyObject *));
        return init_instance((PyObject *)(block + 1), type);
    }

    /* A new instance with empty slots, untracked: a message is a tree, so the collector need not visit it. `many`: the
       message has many objects, so use a slab. */
    static PyObject *make_instance(PyTypeObject *type, int many) {
        Py_ssize_t size = size_class(type);
        PyObject *instance = spares[size].first;
        if (instance != NULL) {
            spares[size].first = *(PyObject **)(instance + 1);
            spares[size].count--;
            *(PyObject **)(instance + 1) = NULL;
            return init_instance(instance, type);
        }
        if (many && knows_head && size > 0 && type->tp_dealloc == free_slots
            && (instance = make_in_slab(type, size)) != NULL) return instance;
        if ((instance = _PyObject_GC_New(type)) == NULL) return NULL;
        memset(instance + 1, 0, type->tp_basicsize - sizeof(PyObject));
        return instance;
    }

    /* Memory of freed bytes objects, by their exact size, since an allocation may have no room for more bytes. */
    enum { BYTES_SIZES = 256, MOST_SPARE_BYTES = 2 };
    static struct { PyBytesObject *spare[MOST_SPARE_BYTES]; int count; } spare_bytes[BYTES_SIZES];

    /* PyBytes_FromStringAndSize without its four inner calls, which take as long as the allocation. */
    static PyObject *make_bytes(const char *data, Py_ssize_t size) {
    #if MAKES_ITS_OWN
        if (size > 1) {  /* Python shares one object for all shorter bytes of the same value. */
            PyBytesObject *bytes;
            if (size < BYTES_SIZES && spare_bytes[size].count > 0) {
                bytes = spare_bytes[size].spare[--spare_bytes[size].count];
            } else {
                bytes = PyObject_Malloc(offsetof(PyBytesObject, ob_sval) + size + 1);
                if (bytes == NULL) return PyErr_NoMemory();
            }
            Py_SET_REFCNT((PyObject *)bytes, 1);
            Py_SET_TYPE((PyObject *)bytes, &PyBytes_Type);
            Py_SET_SIZE((PyVarObject *)bytes, size);
            _Py_COMP_DIAG_PUSH
            _Py_COMP_DIAG_IGNORE_DEPR_DECLS
            bytes->ob_shash = -1;
            _Py_COMP_DIAG_POP
            memcpy(bytes->ob_sval, data, size);
            bytes->ob_sval[size] = 0;
            return (PyObject *)bytes;
        }
    #endif
        return PyBytes_FromStringAndSize(data, size);
    }

    static inline void drop_bytes(PyObject *value) {
        Py_ssize_t size = PyBytes_GET_SIZE(value);
        if (size > 1 && size < BYTES_SIZES && spare_bytes[size].count < MOST_SPARE_BYTES)
            spare_bytes[size].spare[spare_bytes[size].count++] = (PyBytesObject *)value;
        else PyObject_Free(value);
    }

    /* The int32s of a list that no user has read yet. */
    typedef struct {
        PyObject_HEAD
        int32_t count;
        int32_t values[];
    } PackedInts;

    static void free_packed(PyObject *self) {
        Slab *slab = slab_of(self);
        if (slab) give_back(slab, self); else PyObject_Free(self);
    }

    static PyTypeObject PackedInts_Type = {
        PyVarObject_HEAD_INIT(NULL, 0)
        .tp_name = "kcore._ext.wire.wire_program.PackedInts",
        .tp_basicsize = sizeof(PackedInts),
        .tp_dealloc = free_packed,
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    };

    static inline const int32_t *ints_of(PyObject *value, Py_ssize_t *count) {
        if (!Py_IS_TYPE(value, &PackedInts_Type)) return NULL;
        *count = ((PackedInts *)value)->count;
        return ((PackedInts *)value)->values;
    }

    /* A PackedInts of `count` big-endian int32s at `at`; the caller has checked that these bytes exist. */
    static PyObject *pack_ints(const uint8_t *at, Py_ssize_t count, int many) {
        Py_ssize_t size = (offsetof(PackedInts, values) + 4 * count + sizeof(PyObject *) - 1) / sizeof(PyObject *);
        PackedInts *packed = NULL;
        if (many && MAKES_ITS_OWN && size < SIZES) packed = take_block(size);
        if (packed == NULL && (packed = PyObject_Malloc(size * sizeof(PyObject *))) == NULL)
            return PyErr_NoMemory();
    #if MAKES_ITS_OWN
        Py_SET_REFCNT((PyObject *)packed, 1);
        Py_SET_TYPE((PyObject *)packed, &PackedInts_Type);
    #else
        PyObject_Init((PyObject *)packed, &PackedInts_Type);
    #endif
        packed->count = (int32_t)count;
        for (Py_ssize_t i = 0; i < count; i++, at += 4)
            packed->values[i] = (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
        return (PyObject *)packed;
    }

    /* An untracked list of `count` items, all of which the caller must set. */
    static PyObject *make_list(Py_ssize_t count) {
        PyObject *list;
        if (!knows_head) {
            if ((list = PyList_New(count)) != NULL) PyObject_GC_UnTrack(list);
            return list;
        }
        PyObject **items = NULL;
        if (count > PY_SSIZE_T_MAX / (Py_ssize_t)sizeof(PyObject *)) return PyErr_NoMemory();
        if (count > 0) {
            if ((items = PyMem_Malloc(count * sizeof(PyObject *))) == NULL) return PyErr_NoMemory();
            memset(items, 0, count * sizeof(PyObject *));
        }
        Head *head = PyObject_Malloc(sizeof(Head) + sizeof(PyListObject));
        if (head == NULL) {
            PyMem_Free(items);
            return PyErr_NoMemory();
        }
        head->next = head->previous = 0;
        list = (PyObject *)(head + 1);
        Py_SET_REFCNT(list, 1);
        Py_SET_TYPE(list, &PyList_Type);
        Py_SET_SIZE((PyVarObject *)list, count);
        ((PyListObject *)list)->ob_item = items;
        ((PyListObject *)list)->allocated = count;
        return list;
    }

    /* Releases a slot's value. Frees PackedInts, bytes and untracked lists itself if only the slot refers to them. */
    static inline void drop(PyObject *value) {
        if (value == NULL) return;
        if (Py_IS_TYPE(value, &PackedInts_Type) && Py_REFCNT(value) == 1) {
            free_packed(value);
            return;
        }
        if (MAKES_ITS_OWN && PyBytes_CheckExact(value) && Py_REFCNT(value) == 1) {
            drop_bytes(value);
            return;
        }
        if (!knows_head || Py_REFCNT(value) != 1 || !PyList_CheckExact(value) || ((Head *)value)[-1].next != 0) {
            Py_DECREF(value);
            return;
        }
        PyListObject *list = (PyListObject *)value;
        Py_ssize_t count = Py_SIZE(list);
        PyObject **items = list->ob_item;
        /* Code that runs when an item is freed must see an empty list. */
        Py_SET_SIZE((PyVarObject *)list, 0);
        list->ob_item = NULL;
        list->allocated = 0;
        for (Py_ssize_t i = 0; i < count; i++) Py_XDECREF(items[i]);
        PyMem_Free(items);
        PyObject_Free((Head *)value - 1);
    }

    static void free_now(PyObject *self) {
        PyTypeObject *type = Py_TYPE(self), *own = type;
        Py_ssize_t size = size_class(type);
        Slab *slab;
        while (own->tp_dealloc != free_slots) own = own->tp_base;
        for (PyObject **slot = (PyObject **)(self + 1); (char *)slot < (char *)self + own->tp_basicsize; slot++) {
            PyObject *value = *slot;
            *slot = NULL;
            drop(value);
        }
        if (own == type && (slab = slab_of(self)) != NULL) {
            give_back(slab, (Head *)self - 1);
        } else if (own == type && size > 0 && spares[size].count < MOST_SPARES) {
            *(PyObject **)(self + 1) = spares[size].first;
            spares[size].first = self;
            spares[size].count++;
        } else {
            type->tp_free(self);
        }
        Py_DECREF(type);
    }

    /* Frees an instance that has only slots, since general deallocation costs as much as the rest of a small message.
       A user's subclass frees its own additions, then calls this. The interpreter's guard against deep nesting takes
       time, so it is used only from depth 50 on, which Kafka's messages do not reach. */
    static void free_slots(PyObject *self) {
        static int depth = 0;
        PyObject_GC_UnTrack(self);
        if (depth < 50) {
            depth++;
            free_now(self);
            depth--;
            return;
        }
        Py_TRASHCAN_BEGIN(self, free_slots)
        free_now(self);
        Py_TRASHCAN_END
    }

    static void set_dealloc(PyTypeObject *type, Py_ssize_t slots) {
        if (type->tp_basicsize == (Py_ssize_t)(sizeof(PyObject) + slots * sizeof(PyObject *)) && !type->tp_finalize)
            type->tp_dealloc = free_slots;
    }
    """
    void check_head(Py_ssize_t size)
    PyTypeObject PackedInts_Type
    int PyType_Ready(PyTypeObject *type) except -1
    PyObject *pack_ints(const uint8_t *at, Py_ssize_t count, bint many)
    const int32_t *ints_of(PyObject *value, Py_ssize_t *count)
    PyObject *make_instance(PyTypeObject *type, bint many)
    PyObject *make_list(Py_ssize_t count)
    PyObject *make_bytes(const char *data, Py_ssize_t size)
    void set_dealloc(PyTypeObject *type, Py_ssize_t slots)
