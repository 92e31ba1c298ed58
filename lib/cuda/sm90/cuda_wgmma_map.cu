/* cuda_wgmma_map.cu - tensor maps for the copy engine. The driver encodes them; its function is looked up at run time, so that
 * nothing links with the driver. */
#include "cuda/passes/tile_wide.cuh"

typedef CUresult (*encode_tiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                                 const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

cudaError_t gf_box_map(CUtensorMap *map, const void *x, int rank, const int64_t *size, const int *box) {
    void *entry = NULL;
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    const cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t e = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found);
#endif
    if (e != cudaSuccess) return e;
    if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
    cuuint64_t sizes[4], strides[4];
    cuuint32_t boxes[4];
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    for (int i = 0; i < rank; i++) {
        sizes[i] = static_cast<cuuint64_t>(size[i]), boxes[i] = static_cast<cuuint32_t>(box[i]);
        strides[i] = i ? strides[i - 1] * sizes[i] : 2 * sizes[i]; /* of dimension i + 1, in bytes */
    }
    const CUresult made = reinterpret_cast<encode_tiled>(
        entry)(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(rank), const_cast<void *>(x), sizes, strides, boxes,
               steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return made == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t gf_wide_map(CUtensorMap *map, const __nv_bfloat16 *x, int rows, int width, int box_rows) {
    const int64_t size[2] = {width, rows};
    const int box[2] = {64, box_rows};
    return gf_box_map(map, x, 2, size, box);
}

cudaError_t gf_wg_map(CUtensorMap *map, const __nv_bfloat16 *x, int rows, int box_rows) {
    return gf_wide_map(map, x, rows, 128, box_rows);
}
